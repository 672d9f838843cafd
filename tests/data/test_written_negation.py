"""Sentences that patterns write: marks become cues and scopes, and files that are none are refused."""

import re
from pathlib import Path

import pytest
from datasets import Dataset

from hf_localattn.data import load_negation
from hf_localattn.data.written_negation import annotate, read_marks, tidy, write_sentences
from hf_localattn.names import find_files
from tests.data.notation import notation

SAMPLE = Path(find_files("sample:negation/written.yaml"))


def rows_of(sentence):
    """Return the rows that a sentence has as a file of patterns."""
    return [
        {
            "tokens": sentence.tokens,
            "cue": [int(word in cue.words) for word in range(len(sentence.tokens))],
            "scope": [int(word in cue.scope) for word in range(len(sentence.tokens))],
            "cue_text": [cue.affixes.get(word, token) for word, token in enumerate(sentence.tokens)],
            "cue_type": "affix" if cue.affixes else None,
            "cue_kind": cue.kind,
        }
        for cue in sentence.cues
    ]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("pt [denies] {chest pain}, but reports a ache.", ["Pt [denies] CHEST PAIN , but reports an ache ."]),
        ("she can[not] {walk}", ["She can [not] WALK"]),
        ("{it is} [neither] {old} [nor] {new}.", ["IT IS [neither] OLD [nor] NEW ."]),
        ("[1:no] {1:fever}, [2:no] {2:rash}", ["[No] FEVER , no rash", "No fever , [no] RASH"]),
        ("it is [1:un]{1:fair} and {2:use}[2:less]", ["It is [un]FAIR and useless", "It is unfair and USE[less]"]),
        ("[no] {rash}, [?possible] {?gout}", ["[No] RASH , possible gout", "No rash , [possible] GOUT"]),
    ],
)
def test_marks_become_cues_and_scopes(marked, expected):
    sentence = annotate(*read_marks(tidy(marked)), "document", "sentence")
    rows = load_negation(Dataset.from_list(rows_of(sentence)))
    assert list(map(notation, rows)) == expected
    assert all(kind == "speculation" for kind, text in zip(rows["cue_kind"], expected, strict=True) if "[poss" in text)


def test_the_written_sentences_are_many_different_and_the_same_each_time():
    sentences = list(write_sentences(SAMPLE))
    texts = [" ".join(sentence.tokens) for sentence in sentences]
    assert len(texts) == len(set(texts)) > 6000
    assert list(write_sentences(SAMPLE)) == sentences
    assert len({sentence.document_id for sentence in sentences}) == 5, "domains"
    assert 0.2 < sum(not sentence.cues for sentence in sentences) / len(texts) < 0.5
    assert {cue.kind for sentence in sentences for cue in sentence.cues} == {"negation", "speculation"}
    assert not [text for text in texts if re.search(r"[<>{}|\[\]]", text)]
    for sentence in sentences:
        for cue in sentence.cues:
            assert cue.scope, sentence
            assert cue.affixes or not {*cue.scope} & {*cue.words}, sentence


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("words: {", "YAML"),
        ("- No fever.", "`patterns`"),
        ("words: {a: [b]}\npatterns: {notes: [No <fever>.]}", "<fever>"),
        ("words: {a: [<b>]}\npatterns: {notes: [No <a>.]}", "<b>"),
        ("words: {a: [b]}\npatterns: {notes: [{No: fever}]}", "quotation marks"),
        ("words: {a: [1]}\npatterns: {notes: [No <a>.]}", "quotation marks"),
        ("words: {a: [b]}\npatterns: {notes: ['[No] {fever']}", "bracket"),
        ("words: {a: [b]}\npatterns: {notes: ['No} fever']}", "bracket"),
        ("words: {a: [b]}\npatterns: {notes: ['{fever} is absent']}", "cue"),
        ("words: {a: [<a> or b]}\npatterns: {notes: [No <a>.]}", "itself"),
        ("words: {a: []}\npatterns: {notes: [No <a>.]}", "empty"),
    ],
)
def test_a_file_that_cannot_be_read_as_patterns_is_refused(tmp_path, content, problem):
    path = tmp_path / "patterns.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"patterns.yaml.*{re.escape(problem)}"):
        load_negation(path, all_sentences=True)
