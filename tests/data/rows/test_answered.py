import json
import logging

import pytest
from datasets import Dataset

from hf_localattn.data import Source
from hf_localattn.data.generation import generation_features
from hf_localattn.data.questions import load_answered
from tests.qa_helpers import question, unanswerable, word_pieces, write_jsonl


def without(row, field):
    return {key: value for key, value in row.items() if key != field}


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
    assert "more" not in load_answered(Source("cats", rows)).column_names
    unasked = rows.remove_columns("question")
    assert "question" not in load_answered(Source("cats", unasked), require_questions=False).column_names
    with pytest.raises(ValueError, match="cats: has no column 'question'"):
        load_answered(Source("cats", unasked))
