import csv

import pytest
from datasets import ClassLabel, Dataset

from hf_localattn.data import Source
from hf_localattn.data.choices import ChoiceColumns, load_choices
from tests.qa_helpers import write_jsonl

SWAG = {
    "": "0",
    "video-id": "v",
    "fold-ind": "1",
    "startphrase": "the cat sat. the dog",
    "sent1": "the cat sat.",
    "sent2": "the dog",
    "gold-source": "gold",
    "ending0": "sat on the mat.",
    "ending1": 'sat "on" the, cat.',
    "ending2": "on.",
    "ending3": "red.",
    "label": "2",
}


ROW = {"context": "the cat sat.", "question": "where?", "choices": ["mat", "dog"], "label": 1}


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_swag_as_it_is_published(tmp_path):
    rows = load_choices(write_csv(tmp_path / "val.csv", [SWAG, {**SWAG, "label": "0"}]))
    choices = ["the dog sat on the mat.", 'the dog sat "on" the, cat.', "the dog on.", "the dog red."]
    assert rows.to_list() == [
        {"context": "the cat sat.", "choices": choices, "label": 2},
        {"context": "the cat sat.", "choices": choices, "label": 0},
    ]


def test_swag_with_the_phrase_as_a_whole(tmp_path):
    row = {key: value for key, value in SWAG.items() if key not in ("sent1", "sent2")}
    assert load_choices(write_csv(tmp_path / "val.csv", [row])).to_list() == [
        {
            "context": "the cat sat. the dog",
            "choices": ["sat on the mat.", 'sat "on" the, cat.', "on.", "red."],
            "label": 2,
        }
    ]


def test_endings_are_counted_not_spelled(tmp_path):
    row = {"sent1": "a", "sent2": "b", **{f"ending{i}": str(i) for i in range(11)}, "label": 10}
    assert load_choices(write_jsonl(tmp_path / "a.jsonl", [row]))[0]["choices"][2] == "b 2"


@pytest.mark.parametrize(
    ("changes", "columns", "expected"),
    [
        ({}, {}, ("the cat sat.", ["where? mat", "where? dog"], 1)),
        ({"label": "A"}, {}, ("the cat sat.", ["where? mat", "where? dog"], 0)),
        ({"label": " b "}, {}, ("the cat sat.", ["where? mat", "where? dog"], 1)),
        ({"label": "0"}, {"question": "none"}, ("the cat sat.", ["mat", "dog"], 0)),
        ({"answer": "B"}, {"context": "none", "label": "answer"}, ("where?", ["mat", "dog"], 1)),
        ({"stem": "who?"}, {"context": "stem", "question": "none"}, ("who?", ["mat", "dog"], 1)),
        (
            {"choices": {"text": ["mat", "dog"], "label": ["1", "2"]}, "label": "1"},
            {"question": "none"},
            ("the cat sat.", ["mat", "dog"], 0),
        ),
    ],
)
def test_rows_with_a_list_of_choices(tmp_path, changes, columns, expected):
    rows = load_choices(write_jsonl(tmp_path / "a.jsonl", [{**ROW, **changes}]), ChoiceColumns(**columns))
    assert (rows[0]["context"], rows[0]["choices"], rows[0]["label"]) == expected


def test_rows_to_predict_on_need_no_labels(tmp_path):
    rows = [{**ROW, "label": label} for label in (None, "", -1)]
    assert load_choices(write_jsonl(tmp_path / "a.jsonl", rows), require_labels=False).column_names == [
        "context",
        "choices",
    ]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1: the field 'label' is missing: its value is None"):
        load_choices(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choices": ["mat", "dog", "cat"]}, "3 choices, but 2 in the first row"),
        ({"choices": ["mat"]}, "1 choices: there must be at least two"),
        ({"choices": ["mat", " "]}, "choice 1 is empty; .* --skip_empty"),
        ({"choices": "mat"}, "'choices' must be a list of texts; found 'mat'"),
        ({"label": 2}, "the label 2 is none of the 2 choices: it must be one of 0 to 1, A to B, or a choice"),
        ({"label": "C"}, "the label 'C' is none of the 2 choices"),
        ({"label": True}, "the label True is none of"),
        ({"label": 0.5}, r"the label 0\.5 is none of"),
        ({"choices": {"text": ["a", "b"], "label": ["X", "Y"]}, "label": "Z"}, "must be one of X, Y"),
        ({"context": 3}, "'context' must be a text; found 3"),
        (
            {"question": None},
            "the field 'question' is missing: its value is None; give --question_column_name; .*empty",
        ),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, changes, message):
    path = write_jsonl(tmp_path / "a.jsonl", [ROW, {**ROW, **changes}])
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 2: .*{message}"):
        load_choices(path)


def test_swag_without_beginnings_lists_in_cells_and_labels_by_text(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"sent1": "a", "ending0": "b", "ending1": "c", "label": "c"}])
    (row,) = load_choices(path)
    assert row == {"context": "a", "choices": ["b", "c"], "label": 1}
    (tmp_path / "b.csv").write_text('context,choices,label\nthe cat,"[""runs"", ""flies""]",flies\n')
    (row,) = load_choices(tmp_path / "b.csv")
    assert row == {"context": "the cat", "choices": ["runs", "flies"], "label": 1}


def test_columns_that_are_not_there(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"sent1": "a", "label": 0}])
    with pytest.raises(
        ValueError, match=r"has neither 'choices' nor SWAG's ending0, ending1 … \(it has sent1, label\)"
    ):
        load_choices(path)
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ValueError, match=r"c\.json: holds no rows"):
        load_choices(tmp_path / "c.json")
    (tmp_path / "d.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"d\.json, record 1: expected an object"):
        load_choices(tmp_path / "d.json")


def test_a_hub_data_set():
    data = Dataset.from_list([{**SWAG, "label": 3}]).cast_column("label", ClassLabel(names=["0", "1", "2", "3"]))
    assert load_choices(data)[0]["label"] == 3
    with pytest.raises(ValueError, match="allenai/swag, row 1: the label 4"):
        load_choices(Source("allenai/swag", Dataset.from_list([{**SWAG, "label": 4}])))
