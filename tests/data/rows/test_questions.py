import json

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.data import Source, count_unanswerable, load_squad
from tests.qa_helpers import question, unanswerable, write_jsonl


def nested(rows):
    """SQuAD's own layout: one article, one paragraph a row."""
    paragraphs = []
    for row in rows:
        answers = row["answers"]
        pairs = zip(answers["text"], answers["answer_start"], strict=True)
        qa = {
            "id": row["id"],
            "question": row["question"],
            "is_impossible": not answers["text"],
            "answers": [{"text": text, "answer_start": start} for text, start in pairs],
        }
        paragraphs.append({"context": row["context"], "qas": [qa]})
    return {"version": "v2.0", "data": [{"title": "cats", "paragraphs": paragraphs}]}


ROWS = [question(0), unanswerable(1)]


def write(tmp_path, content, name="data.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("content", [nested(ROWS), ROWS, {"data": ROWS}], ids=["nested", "list", "data"])
def test_every_json_layout_gives_the_same_rows(tmp_path, content):
    assert load_squad(write(tmp_path, content)).to_list() == ROWS


@pytest.mark.parametrize("name", ["data.jsonl", "data.json"])
def test_one_row_a_line(tmp_path, name):
    data = load_squad(write_jsonl(tmp_path / name, ROWS))
    assert data.to_list() == ROWS
    assert count_unanswerable(data) == 1


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path):
    row = question(context="the cats sat on the mat.\u2028 the dog.")
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    assert load_squad(path).to_list() == [row]


def test_answers_as_a_list_numbers_as_ids_and_no_title(tmp_path):
    row = question(answers=[{"text": "on the mat", "answer_start": 13}], id=7)
    del row["title"]
    assert load_squad(write(tmp_path, [row])).to_list() == [question(id="7", title="")]


def test_answers_are_optional_where_nothing_is_learned_from_them(tmp_path):
    row = question()
    del row["answers"]
    path = write(tmp_path, [row])
    assert load_squad(path, require_answers=False)[0]["answers"] == {"text": [], "answer_start": []}
    with pytest.raises(ValueError, match=r"record 1 \(id q0\): the field 'answers' is missing"):
        load_squad(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": None}, "the field 'context' is missing"),
        ({"question": "  "}, "the field 'question' is empty"),
        ({"context": 3}, "the field 'context' must be a text; found 3"),
        ({"answers": "on the mat"}, "the field 'answers' must be"),
        ({"answers": {"text": ["on", "mat"], "answer_start": [13]}}, "lists of equal length"),
        ({"answers": {"text": ["on"], "answer_start": ["13"]}}, "'answer_start' must be a whole number; found '13'"),
        ({"answers": {"text": [""], "answer_start": [13]}}, "'text' must be a non-empty text"),
        (
            {"answers": {"text": ["sat"], "answer_start": [10]}},
            r"the answer 'sat' is not at answer_start 10 \(there: 'at '\); the text occurs at 9, 33: correct",
        ),
        ({"answers": {"text": ["sat"], "answer_start": [-28]}}, "not at answer_start -28"),
        ({"answers": {"text": ["cow"], "answer_start": [10]}}, "the text occurs nowhere in the context"),
        ({"is_impossible": True}, "'is_impossible' is true, but there are answers"),
    ],
)
def test_a_malformed_record_is_named(tmp_path, change, message):
    path = write_jsonl(tmp_path / "data.jsonl", [question(0), question(1, **change)])
    with pytest.raises(ValueError, match=rf"data\.jsonl, line 2 \(id q1\): .*{message}"):
        load_squad(path)


def test_a_malformed_record_of_the_nested_layout_is_named(tmp_path):
    content = nested([question(0), question(1)])
    del content["data"][0]["paragraphs"][1]["qas"][0]["question"]
    with pytest.raises(ValueError, match=r"article 1, paragraph 2, question 1 \(id q1\): the field 'question'"):
        load_squad(write(tmp_path, content))
    del content["data"][0]["paragraphs"][1]["qas"]
    with pytest.raises(ValueError, match="article 1, paragraph 2: expected a list 'qas'"):
        load_squad(write(tmp_path, content))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.jsonl", "", "data.jsonl: is empty"),
        ("data.json", " \n", "data.json: is empty"),
        ("data.json", "[]", "holds no questions"),
        ("data.json", '{"data": []}', "holds no questions"),
        ("data.json", '{"rows": []}', "expected a list of rows"),
        ("data.json", '[\n{"id": }]', "line 2, column 8: invalid JSON"),
        ("data.jsonl", '{"id": 1}\n{"id"', "data.jsonl, line"),
        ("data.json", "[1]", "record 1: expected an object"),
        ("data.csv", "id,question", "cannot read .csv"),
        ("data", "id,question", "cannot read a file without an extension"),
    ],
)
def test_a_file_that_is_not_usable(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        load_squad(write(tmp_path, content, name))


def test_a_broken_line_is_named_by_its_number(tmp_path):
    path = write(tmp_path, json.dumps(question()) + "\n\n{oops\n", "data.jsonl")
    with pytest.raises(ValueError, match="line 3, column 2: invalid JSON"):
        load_squad(path)


def test_a_missing_file_and_bytes_that_are_no_text(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.json: no such file"):
        load_squad(tmp_path / "nothing.json")
    (tmp_path / "latin.json").write_bytes('["é"]'.encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8"):
        load_squad(tmp_path / "latin.json")


def test_ids_are_unique(tmp_path):
    with pytest.raises(ValueError, match="questions 1 and 2 have the same id 'q0'"):
        load_squad(write(tmp_path, [question(0), question(0)]))


def test_a_data_set_from_elsewhere_is_checked_likewise():
    checked = load_squad(Dataset.from_list([{**row, "extra": 1} for row in ROWS]))
    assert checked.to_list() == ROWS
    with pytest.raises(ValueError, match=r"hub, row 1 \(id q0\): the answer 'cow' is not at"):
        load_squad(Source("hub", Dataset.from_list([question(answers={"text": ["cow"], "answer_start": [0]})])))
    with pytest.raises(ValueError, match=r"hub: has no column 'context' \(it has .*passage"):
        load_squad(Source("hub", Dataset.from_list([question()]).rename_column("context", "passage")))


@settings(deadline=None)
@given(st.text(min_size=1).filter(str.strip), st.data())
def test_every_true_span_is_accepted(tmp_path_factory, context, data):
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    row = question(context=context, answers={"text": [context[start:end]], "answer_start": [start]})
    path = write_jsonl(tmp_path_factory.mktemp("squad") / "data.jsonl", [row])
    if context[start:end].strip():
        assert load_squad(path).to_list() == [row]
    else:
        with pytest.raises(ValueError, match="non-empty"):
            load_squad(path)
