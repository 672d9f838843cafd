import json

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from hf_localattn.data import Source
from hf_localattn.data.words import (
    TokenColumns,
    check_labels,
    load_label_names,
    load_sentences,
    sorted_labels,
)
from tests.qa_helpers import write_jsonl

ROW = {"id": "0", "tokens": ["the", "cats"], "ner_tags": ["O", "B-x"], "pos_tags": ["DET", "NOUN"]}


def test_rows(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [ROW, {**ROW, "tokens": [], "ner_tags": []}])
    rows = load_sentences(path)
    assert rows.to_list() == [{"tokens": ["the", "cats"], "labels": ["O", "B-x"]}, {"tokens": [], "labels": []}]


def test_columns_by_name(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{**ROW, "words": ["a", "b"], "labels": ["1", "2"]}])
    assert load_sentences(path, TokenColumns(task="pos"))["labels"][0] == ["DET", "NOUN"]
    rows = load_sentences(path, TokenColumns(text="words", label="labels"))
    assert rows.to_list() == [{"tokens": ["a", "b"], "labels": ["1", "2"]}]


def test_numbers_with_and_without_names(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{**ROW, "ner_tags": [0, 2]}])
    assert load_sentences(path)["labels"][0] == ["0", "2"]
    assert load_sentences(path, TokenColumns(names=["O", "A", "B"]))["labels"][0] == ["O", "B"]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1 \(id 0\): the label 2 has no name; .* names for 0 to 1"):
        load_sentences(path, TokenColumns(names=["O", "A"]))


def test_the_name_of_a_file_says_its_layout(tmp_path):
    for name in ("a.conll", "a.txt", "a.tsv", "a.bio", "a.iob"):
        (tmp_path / name).write_text("the\tx\tO\n")
        assert load_sentences(tmp_path / name, TokenColumns(conll=1)).to_list() == [
            {"tokens": ["the"], "labels": ["x"]}
        ]
    (tmp_path / "a.conllu").write_text("1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n")
    assert load_sentences(tmp_path / "a.conllu", TokenColumns(conllu="xpos"))["labels"][0] == ["VB"]


def test_rows_to_predict_on_need_no_labels(tmp_path):
    bare = {"tokens": ["the"]}
    path = write_jsonl(tmp_path / "a.jsonl", [bare, {**bare, "ner_tags": None}, {**bare, "ner_tags": [-1]}])
    assert load_sentences(path, require_labels=False).to_list() == [{"tokens": ["the"], "labels": []}] * 3
    path = write_jsonl(tmp_path / "b.jsonl", [ROW, bare])
    with pytest.raises(ValueError, match=r"b\.jsonl, sentence 2: has no labels, but other sentences have"):
        load_sentences(path, require_labels=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ner_tags": ["O"]}, "2 words in 'tokens', but 1 labels in 'ner_tags'"),
        ({"tokens": "the cats"}, "the field 'tokens' must be a list of texts; found 'the cats'"),
        ({"tokens": ["the", 1]}, "the field 'tokens' must be a list of texts; found a list of 2"),
        ({"ner_tags": "O O"}, "the field 'ner_tags' must be a list of labels; found 'O O'"),
        ({"ner_tags": ["O", 0.5]}, r"a label must be a text or a whole number; found 0\.5"),
        ({"ner_tags": ["O", True]}, "a label must be a text or a whole number; found True"),
        ({"ner_tags": ["O", ""]}, "a label must be a text or a whole number; found ''"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, changes, message):
    path = write_jsonl(tmp_path / "a.jsonl", [ROW, {**ROW, **changes}])
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 2 \(id 0\): {message}"):
        load_sentences(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            TokenColumns(text="words"),
            r"the field 'words' is missing \(found id, tokens, .*; give --text_column_name",
        ),
        (
            TokenColumns(task="chunk"),
            "the field 'chunk_tags or labels' is missing .*_column_name or --task_name",
        ),
        (TokenColumns(label="tags"), "the field 'tags' is missing "),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, message):
    path = write_jsonl(tmp_path / "a.jsonl", [ROW])
    with pytest.raises(ValueError, match=message):
        load_sentences(path, columns)


def test_files_that_cannot_be_used(tmp_path):
    (tmp_path / "a.html").write_text("<a/>")
    with pytest.raises(
        ValueError, match=r"a\.html: cannot read \.html; the extension must be one of \.json, .*\.xml, .*\.iob"
    ):
        load_sentences(tmp_path / "a.html")
    with pytest.raises(FileNotFoundError, match=r"b\.conll: no such file"):
        load_sentences(tmp_path / "b.conll")
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ValueError, match=r"c\.json: holds no sentences"):
        load_sentences(tmp_path / "c.json")
    (tmp_path / "d.json").write_text('["the cats"]')
    with pytest.raises(ValueError, match=r"d\.json, record 1: expected an object"):
        load_sentences(tmp_path / "d.json")


def test_class_names_of_a_hub_data_set():
    kinds = {"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-x"]))}
    data = Dataset.from_list([{"tokens": ["the", "cats"], "ner_tags": [0, 1]}], features=Features(kinds))
    assert load_sentences(data).to_list() == [{"tokens": ["the", "cats"], "labels": ["O", "B-x"]}]
    with pytest.raises(ValueError, match="somewhere: has no column 'pos_tags or labels'"):
        load_sentences(Source("somewhere", data), TokenColumns(task="pos"))


def test_label_names(tmp_path):
    path = tmp_path / "names.json"
    for content in (["O", "B-x"], {"ner_tags": ["O", "B-x"], "pos_tags": ["N"]}):
        path.write_text(json.dumps(content))
        assert load_label_names(path, TokenColumns()) == ["O", "B-x"]
    for content, message in ((["O", "O"], "the name 'O' occurs twice"), ([], "expected a list of names")):
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=rf"names\.json: {message}"):
            load_label_names(path, TokenColumns())


def test_the_order_of_labels_that_have_none():
    assert sorted_labels({"10", "9", "0"}) == ["0", "9", "10"]
    assert sorted_labels({"O", "B-x", "I-x"}) == ["B-x", "I-x", "O"]


def test_a_label_that_the_model_does_not_know(tmp_path):
    rows = load_sentences(write_jsonl(tmp_path / "a.jsonl", [ROW, ROW]))
    check_labels(rows, "a.jsonl", ["O", "B-x"])
    with pytest.raises(ValueError, match=r"a\.jsonl, sentence 1, word 2 \('cats'\): the label 'B-x' is not one of"):
        check_labels(rows, "a.jsonl", ["O", "B-y"])
