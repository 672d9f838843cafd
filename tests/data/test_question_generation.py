import json
import logging
import re

import pytest
from datasets import Dataset
from transformers import ProphetNetTokenizer

from hf_localattn.data.question_generation import check_answered, generation_features, load_answered, source
from tests.qa_helpers import ALPHABET, SPECIAL, WORDS, byte_pieces, question, unanswerable, word_pieces, write_jsonl


def without(row, field):
    return {key: value for key, value in row.items() if key != field}


@pytest.fixture
def prophetnet_pieces(tmp_path):
    """The paper's tokenizer, which has no character offsets, with a small vocabulary."""
    pieces = [*SPECIAL, "[X_SEP]", "[MASK]", *WORDS, *ALPHABET, *(f"##{letter}" for letter in ALPHABET)]
    (tmp_path / "vocabulary.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return ProphetNetTokenizer(str(tmp_path / "vocabulary.txt"))


def test_unanswerable_questions_are_left_out_and_counted(tmp_path, caplog):
    path = write_jsonl(tmp_path / "a.jsonl", [question(0), unanswerable(1), question(2)])
    with caplog.at_level(logging.WARNING):
        rows = load_answered(path)
    assert rows["id"] == ["q0", "q2"]
    assert "a.jsonl: 1 of 3 questions have no answer and are left out" in caplog.text


def test_nothing_but_unanswerable_questions(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [unanswerable(0), unanswerable(1)])
    with pytest.raises(ValueError, match=r"a\.jsonl: none of the 2 questions has an answer"):
        load_answered(path)


def test_two_questions_about_one_answer_stay_two_rows(tmp_path):
    rows = load_answered(write_jsonl(tmp_path / "a.jsonl", [question(0), question(1, question="where?")]))
    features = generation_features(rows.to_dict(), word_pieces(), 40, 20)
    assert features["reference"] == ["where sat the cat?", "where?"]
    assert features["input_ids"][0] == features["input_ids"][1]


def test_squads_nested_layout(tmp_path):
    row = question()
    answers = [{"text": "on the mat", "answer_start": 13}, {"text": "mat", "answer_start": 20}]
    paragraph = {"context": row["context"], "qas": [{"id": "q", "question": row["question"], "answers": answers}]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "cats", "paragraphs": [paragraph]}]}))
    features = generation_features(load_answered(path).to_dict(), word_pieces(), 40, 20)
    assert word_pieces().decode(features["input_ids"][0]).startswith("[CLS] on the mat [SEP] the cats")


def test_rows_to_predict_on_need_no_question_but_an_answer(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [question(0), without(question(1), "question")])
    with pytest.raises(ValueError, match=r"line 2 \(id q1\): the field 'question' is missing"):
        load_answered(path)
    rows = load_answered(path, require_questions=False)
    assert "question" not in rows.column_names
    assert set(generation_features(rows.to_dict(), word_pieces(), 40, 20)) == {"input_ids", "attention_mask"}
    path = write_jsonl(tmp_path / "b.jsonl", [without(question(), "answers")])
    with pytest.raises(ValueError, match=r"line 1 \(id q0\): the field 'answers' is missing"):
        load_answered(path, require_questions=False)


def test_a_data_set_with_squads_columns(caplog):
    rows = Dataset.from_list([{**question(0), "more": 1}, {**question(1), "more": 2}])
    assert "more" not in check_answered(rows, "cats").column_names
    unasked = rows.remove_columns("question")
    assert "question" not in check_answered(unasked, "cats", require_questions=False).column_names
    with pytest.raises(ValueError, match="cats: has no column question"):
        check_answered(unasked, "cats")


def test_answer_separator_passage_and_the_question_as_labels():
    tokenizer = word_pieces()
    examples = {key: [value] for key, value in question().items()}
    features = generation_features(examples, tokenizer, 40, 20)
    assert set(features) == {"input_ids", "attention_mask", "labels", "reference"}
    decoded = tokenizer.decode(features["input_ids"][0])
    assert decoded == "[CLS] on the mat [SEP] the cats sat on the mat. the dog sat. [SEP]"
    assert tokenizer.decode(features["labels"][0]) == "[CLS] where sat the cat? [SEP]"
    cut = generation_features(examples, tokenizer, 40, 4)["labels"][0]
    assert tokenizer.decode(cut) == "[CLS] where sat [SEP]"  # a cut question still has its end


def test_padding_to_the_full_lengths():
    tokenizer = word_pieces()
    examples = {key: [value] for key, value in question().items()}
    features = generation_features(examples, tokenizer, 40, 20, pad_to_max_length=True)
    ids, mask, labels = (features[name][0] for name in ("input_ids", "attention_mask", "labels"))
    assert (len(ids), len(mask), len(labels)) == (40, 40, 20)
    assert ids[sum(mask) :] == [tokenizer.pad_token_id] * (40 - sum(mask))
    assert labels[-1] == -100


# The word "dog" marks the answer, red words are far from it.
FILLER = "red " * 40


@pytest.mark.parametrize("kind", ["fast", "bytes", "no offsets"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(FILLER + "who sat on ", " the mat. " + FILLER), ("", " the mat. " + FILLER), (FILLER + "who sat on ", "")],
)
def test_of_a_long_passage_the_answers_surroundings_are_used(kind, before, after, prophetnet_pieces):
    tokenizer = {"fast": word_pieces(), "bytes": byte_pieces(), "no offsets": prophetnet_pieces}[kind]
    length = 80 if kind == "bytes" else 20
    ids = source(before + "dog" + after, "dog", len(before), tokenizer, length)
    decoded = tokenizer.decode(ids)
    if kind == "bytes":
        decoded = decoded.replace(" ", "").replace("Ġ", " ")
    passage = re.split(r"</s>|\[SEP\]", decoded)[1]
    assert length - 2 * len(" red") < len(ids) <= length  # the room is used: not a word more fits on either side
    assert passage.count("dog") == 1
    assert ("on dog" in passage) == bool(before)
    assert ("dog the mat." in passage) == bool(after)


def test_which_of_equal_words_is_the_answer_counts():
    tokenizer = word_pieces()
    context = "the dog sat. " + FILLER + "on the dog sat who?"
    ids = source(context, "dog", context.rindex("dog"), tokenizer, 20)
    assert tokenizer.decode(ids).endswith("on the dog sat who? [SEP]")


def test_a_passage_without_spaces_is_cut_within():
    tokenizer = word_pieces()
    context = "a" * 40 + "dog" + "b" * 40
    ids = source(context, "dog", 40, tokenizer, 20)
    assert 17 < len(ids) <= 20
    passage = tokenizer.decode(ids).split("[SEP]")[1]
    assert "aadogbb" in passage


def test_an_answer_that_is_itself_too_long_is_cut(caplog):
    tokenizer = word_pieces()
    answer = "cat " * 30 + "dog"
    with caplog.at_level(logging.WARNING):
        ids = source("the " + answer + " sat", answer, 4, tokenizer, 21)
    assert tokenizer.decode(ids) == f"[CLS] {'cat ' * 9}[SEP] {'cat ' * 9}[SEP]"
    assert "does not fit into 21 tokens" in caplog.text
