"""Rows that ask for the cues of a sentence."""

from itertools import accumulate

from hf_localattn.data.negation import add_questions, load_negation, split_questions
from hf_localattn.resources import FOLDER

SAMPLES = FOLDER / "samples" / "negation"


def test_each_sentence_asks_for_its_cues_before_the_rows_of_the_cues():
    rows = load_negation(SAMPLES / "starsem.txt", all_sentences=True)
    asked = add_questions(rows)
    sentences = split_questions(asked)
    assert len(sentences) == 39
    assert [row["sentence_id"] for row in asked] == [row["sentence_id"] for own in sentences for row in own]
    assert [row["id"] for row in asked if any(row["cue"])] == [row["id"] for row in rows if any(row["cue"])]
    for question, *cues in sentences:
        assert not any(question["cue"])
        assert all(any(row["cue"]) for row in cues)
        assert not any(row["cue_labels"] for row in cues)
        labels = ["O"] * len(question["tokens"])
        for row in reversed(cues):
            for word, is_cue in enumerate(row["cue"]):
                labels[word] = f"negation:{row['cue_type']}" if is_cue else labels[word]
        assert question["cue_labels"] == labels
        assert question["scope"] == [0] * len(labels)


def test_both_kinds_of_cues_have_labels():
    rows = add_questions(load_negation(SAMPLES / "bioscope.xml", "both", all_sentences=True))
    labels = {label.partition(":")[0] for row in rows for label in row["cue_labels"]}
    assert labels == {"O", "negation", "speculation"}


def test_a_limit_leaves_whole_sentences():
    rows = load_negation(SAMPLES / "starsem.txt", all_sentences=True)
    sentences = split_questions(add_questions(rows))
    ends = list(accumulate(max(len(own) - 1, 1) for own in sentences))
    for limit in range(1, len(rows) + 2):
        whole = max(sum(end <= limit for end in ends), 1)
        for loaded in (limit + 1, len(rows)):
            some = rows.select(range(min(loaded, len(rows))))
            assert split_questions(add_questions(some, limit)) == sentences[:whole], limit
