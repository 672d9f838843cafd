import json

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from hf_localattn.data import Source
from hf_localattn.data.texts import (
    GLUE_TASKS,
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    TextColumns,
    labels_of,
    load_texts,
    number_labels,
)
from hf_localattn.metrics.classification_scores import GLUE_METRICS
from tests.qa_helpers import write_jsonl


def rows_of(*labels, **changes):
    return [{"text": f"cat {i}", "label": label, **changes} for i, label in enumerate(labels)]


def load(tmp_path, rows, layout=None, **options):
    return load_texts(write_jsonl(tmp_path / "data.jsonl", rows), layout or TextColumns(), **options)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], Labels(SINGLE_LABEL, ("a", "b"))),
        ([10, 9, 2], Labels(SINGLE_LABEL, ("2", "9", "10"))),
        (["10", "9", "x"], Labels(SINGLE_LABEL, ("9", "10", "x"))),
        ([True, False], Labels(SINGLE_LABEL, ("false", "true"))),
        ([" two\twords ", "x"], Labels(SINGLE_LABEL, ("two words", "x"))),
        ([1, 2.5], Labels(REGRESSION)),
        (["1", "2.5"], Labels(REGRESSION)),
        ([["b", "a"], []], Labels(MULTI_LABEL, ("a", "b"))),
        ([[3], [0, 10]], Labels(MULTI_LABEL, ("0", "3", "10"))),
    ],
)
def test_labels_tell_what_is_predicted(tmp_path, labels, expected):
    assert labels_of(load(tmp_path, rows_of(*labels))) == expected


def test_scores_or_classes_if_it_is_said(tmp_path):
    assert labels_of(load(tmp_path, rows_of(1, 2), TextColumns(problem_type=REGRESSION))) == Labels(REGRESSION)
    assert labels_of(load(tmp_path, rows_of("1.5", "2.0"), TextColumns(problem_type=SINGLE_LABEL))).names == (
        "1.5",
        "2.0",
    )


@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data.json", "data.jsonl"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name):
    path = tmp_path / name
    if name.endswith("sv"):
        separator = "," if name == "data.csv" else "\t"
        path.write_text(
            "".join(separator.join(line) + "\n" for line in [("text", "label"), ("cat", "1"), ("dog", "0")])
        )
    else:
        rows = [{"text": "cat", "label": 1}, {"text": "dog", "label": 0}]
        path.write_text(json.dumps(rows) if name == "data.json" else "".join(json.dumps(row) + "\n" for row in rows))
    rows = number_labels(load_texts(path, TextColumns()), Labels(SINGLE_LABEL, ("0", "1")))
    assert rows.to_list() == [{"text": "cat", "label": 1}, {"text": "dog", "label": 0}]


@pytest.mark.parametrize("task", GLUE_TASKS)
def test_tasks_of_glue(tmp_path, task):
    layout = GLUE_TASKS[task]
    row = dict.fromkeys(layout.texts, "the cat")
    first, second = (0.5, 4.0) if layout.names is None else (0, 1)
    rows = load(tmp_path, [{**row, "label": second, "idx": 0}, {**row, "label": first, "idx": 1}], layout)
    labels = labels_of(rows)
    assert labels == Labels(layout.problem_type, layout.names or ())
    assert number_labels(rows, labels)["label"][:] == [second, first]
    assert number_labels(rows, labels).column_names == [*("text", "text_pair")[: len(row)], "label"]
    unlabeled = load(tmp_path, [{**row, "label": -1}], layout, require_labels=False)
    assert "label" not in number_labels(unlabeled, labels).column_names
    with pytest.raises(ValueError, match="line 1: the field 'label' holds no label; found -1"):
        load(tmp_path, [{**row, "label": -1}], layout)
    assert task in GLUE_METRICS


def test_glue_labels_by_name_or_by_number_as_text(tmp_path):
    rows = [{"sentence": "cat", "label": label} for label in ("positive", "0", 1)]
    loaded = load(tmp_path, rows, GLUE_TASKS["sst2"])
    assert number_labels(loaded, labels_of(loaded))["label"][:] == [1, 0, 1]


def test_a_question_of_quora_may_be_empty(tmp_path):
    row = {"question1": "cat", "question2": "", "label": 0}
    assert len(load(tmp_path, [row], GLUE_TASKS["qqp"])) == 1
    with pytest.raises(ValueError, match="the field 'question1' is empty"):
        load(tmp_path, [{**row, "question1": " "}], GLUE_TASKS["qqp"])


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (("label", "sentence2", "sentence1"), ("sentence1", "sentence2")),
        (("premise", "hypothesis"), ("premise", "hypothesis")),
        (("text", "title"), ("text",)),
        (("text", "text_pair"), ("text", "text_pair")),
        (("question", "id"), ("question",)),
    ],
)
def test_columns_are_found_by_their_names(tmp_path, columns, found):
    row = {**{column: f"the {column}" for column in columns}, "label": "a"}
    rows = load(tmp_path, [row])
    assert [rows[0][name] for name in ("text", "text_pair")[: len(found)]] == [row[column] for column in found]
    assert ("text_pair" in rows.column_names) == (len(found) == 2)


@pytest.mark.parametrize(
    ("rows", "layout", "message"),
    [
        ([{"words": "a", "label": 1}], TextColumns(), r"data.jsonl: no known text columns \(it has words, label\)"),
        (
            rows_of(1),
            TextColumns(("words",)),
            r"line 1: the field 'words' is missing \(found text, label\); give .* --text_column_names",
        ),
        (rows_of(1, 2, text=None), TextColumns(("text",)), "line 1: the field 'text' is missing"),
        ([*rows_of(1), {"text": " ", "label": 1}], TextColumns(), "line 2: the field 'text' is empty"),
        ([*rows_of(1), {"text": 3, "label": 1}], TextColumns(), "line 2: the field 'text' must be a text; found 3"),
        ([*rows_of(1), [1]], TextColumns(), "line 2: expected an object with text, label; found a list of 1"),
        (rows_of(1), TextColumns(label="class"), r"line 1: the field 'class' is missing \(found text, label\)"),
        (rows_of(1, None), TextColumns(), "line 2: the field 'label' holds no label; found None"),
        (rows_of("a", " "), TextColumns(), "line 2: the field 'label' holds no label; found ' '"),
        (rows_of(["a"], "b"), TextColumns(), "line 2: the label must be a list, as in other rows; found 'b'"),
        (
            rows_of("a", {"b": 1}),
            TextColumns(),
            "line 2: the label must be a name or a whole number; found an object with b",
        ),
        (
            rows_of(["a", ["b"]]),
            TextColumns(),
            "line 1: the label must be a name or a whole number; found a list of 1",
        ),
        (rows_of(1.5, "many"), TextColumns(), "line 2: the label 'many' is not a number, .* --do_regression false"),
        (rows_of(1.5, True), TextColumns(), "line 2: the label True is not a number"),
        (
            rows_of(0, 2),
            TextColumns(names=("a", "b")),
            r"line 2: the label 2 is outside the label set \(a, b; or 0 to 1\)",
        ),
    ],
)
def test_an_unusable_row_is_named(tmp_path, rows, layout, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, rows, layout)


def test_an_empty_file_of_rows(tmp_path):
    (tmp_path / "data.json").write_text("[]")
    with pytest.raises(ValueError, match=r"data.json: holds no texts"):
        load_texts(tmp_path / "data.json", TextColumns())


def test_a_label_outside_the_label_set_is_named_with_its_row(tmp_path):
    rows = load(tmp_path, rows_of("a", "c"))
    with pytest.raises(ValueError, match=r"data.jsonl, line 2: the label 'c' is outside the label set \(a, b\)"):
        number_labels(rows, Labels(SINGLE_LABEL, ("a", "b")))
    several = load(tmp_path, rows_of(["a"], ["b", "c"]))
    with pytest.raises(ValueError, match=r"data.jsonl, line 2: the label 'c' is outside the label set \(a, b\)"):
        number_labels(several, Labels(MULTI_LABEL, ("a", "b")))


def test_labels_become_numbers_of_the_given_order(tmp_path):
    rows = load(tmp_path, rows_of("a", "b"))
    assert number_labels(rows, Labels(SINGLE_LABEL, ("c", "b", "a")))["label"][:] == [2, 1]
    several = number_labels(load(tmp_path, rows_of(["a", "b", "a"], [])), Labels(MULTI_LABEL, ("c", "b", "a")))
    assert several["label"][:] == [[0, 1, 1], [0, 0, 0]]
    whole = number_labels(load(tmp_path, rows_of(3, 5)), Labels(REGRESSION))  # beside training scores with a fraction
    assert whole["label"][:] == [3, 5]
    with pytest.raises(ValueError, match="line 1: the labels are for regression, but the model predicts single"):
        number_labels(load(tmp_path, rows_of(0.5)), Labels(SINGLE_LABEL, ("a", "b")))


def test_rows_without_labels_are_for_prediction(tmp_path):
    rows = load(tmp_path, [{"text": "cat"}], require_labels=False)
    assert labels_of(rows) is None
    assert number_labels(rows, Labels(SINGLE_LABEL, ("a", "b"))).to_list() == [{"text": "cat"}]
    some = load(tmp_path, rows_of("a", None), require_labels=False)
    assert "label" not in number_labels(some, Labels(SINGLE_LABEL, ("a", "b"))).column_names


@pytest.mark.parametrize(
    ("feature", "values", "expected"),
    [
        (ClassLabel(names=["z", "a"]), [0, 1], Labels(SINGLE_LABEL, ("z", "a"))),
        (ClassLabel(names=["1", "0"]), [0, 1], Labels(SINGLE_LABEL, ("1", "0"))),
        (List(ClassLabel(names=["z", "a"])), [[0], [0, 1]], Labels(MULTI_LABEL, ("z", "a"))),
        (Value("int64"), [10, 9], Labels(SINGLE_LABEL, ("9", "10"))),
        (Value("string"), ["b", "a"], Labels(SINGLE_LABEL, ("a", "b"))),
        (Value("float64"), [3.0, 1.5], Labels(REGRESSION)),
        (Value("bool"), [True, False], Labels(SINGLE_LABEL, ("false", "true"))),
        (List(Value("string")), [["b"], ["a"]], Labels(MULTI_LABEL, ("a", "b"))),
    ],
)
def test_data_sets_keep_their_classes(feature, values, expected):
    features = Features({"text": Value("string"), "label": feature})
    dataset = Dataset.from_dict({"text": ["cat", "dog"], "label": values}, features=features)
    checked = load_texts(Source("cats", dataset), TextColumns())
    assert labels_of(checked) == expected
    if isinstance(feature, ClassLabel):
        assert number_labels(checked, expected)["label"][:] == values


def test_checks_of_a_data_set():
    names = Features({"text": Value("string"), "label": ClassLabel(names=["a", "b"])})
    unlabeled = Dataset.from_dict({"text": ["cat"], "label": [-1]}, features=names)
    assert load_texts(unlabeled, TextColumns(), require_labels=False)["label"][:] == [None]
    with pytest.raises(ValueError, match="cats, row 1: the field 'label' holds no label; found -1"):
        load_texts(Source("cats", unlabeled), TextColumns())
    with pytest.raises(ValueError, match=r"cats: has no column 'label' \(it has text\); give .* --label_column_name"):
        load_texts(Source("cats", unlabeled.remove_columns("label")), TextColumns())
    with pytest.raises(ValueError, match="cats: holds no texts"):
        load_texts(Source("cats", unlabeled.select([])), TextColumns())
    with pytest.raises(ValueError, match="cats, row 2: the field 'text' is empty"):
        load_texts(Source("cats", Dataset.from_dict({"text": ["cat", ""], "label": [0, 1]})), TextColumns())


def test_several_classes_in_a_cell(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\ngood soup,"[""food"", ""room""]"\nnothing,[]\n')
    rows = load_texts(tmp_path / "a.csv", TextColumns())
    assert labels_of(rows) == Labels(MULTI_LABEL, ("food", "room"))
    assert rows["label"][:] == [[0, 1], []]


def test_minus_one_is_no_label_where_none_is_needed(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "the cat", "label": -1}])
    assert load_texts(path, TextColumns(), require_labels=False)["label"][:] == [None]
