"""Labels of texts and choices: what a value of a file or data set stands for, by the tables of the docs and here."""

import csv
import json
import math
import re
from pathlib import Path

import pyarrow
import pytest
from datasets import ClassLabel, Dataset, Features, LargeList, List, Value

from hf_localattn.data import ChoiceColumns, TextColumns, load_choices, load_squad, load_texts
from hf_localattn.data.labels import SINGLE_LABEL
from tests.data.notation import shown, write

PAGE = Path(__file__).parents[2] / "docs" / "text_classification.md"
OPTIONAL = {"require_labels": False}


def spans(cell):
    return re.findall(r"`([^`]*)`", cell)


def documented():
    """Return the rows of the page's tables of labels: class names, JSON values, cells, and the expected labels."""
    section = PAGE.read_text(encoding="utf-8").partition("### How a label is read")[2].partition("\n### ")[0]
    cases, names = [], None
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != 3:
            continue
        if cells[2] == "read as":
            names = tuple(spans(cells[0])[:-1]) or None
            continue
        kind = cells[2].split()[0].strip(":,")
        expected = spans(cells[2])
        if kind in ("scores", "sets"):
            expected = list(map(json.loads, expected))
        cases.append(pytest.param(names, spans(cells[0]), spans(cells[1]), kind, expected, id=line[:60]))
    assert len(cases) > 25
    return cases


def labels_of(rows):
    """Return the labels of rows, classes by their names."""
    feature = rows.features["label"]
    if isinstance(feature, ClassLabel):
        return [label if label is None else feature.int2str(label) for label in rows["label"]]
    if isinstance(feature, List) and isinstance(feature.feature, ClassLabel):
        return [[feature.feature.int2str(index) for index in label] for label in rows["label"]]
    return list(rows["label"])


def sources(folder, values, cells):
    """Return labels in a .jsonl file, in a .csv file and in a data set, if it can hold them."""
    content = "".join(f'{{"text": "a", "label": {value}}}\n' for value in values)
    files = [write(folder, ("a.jsonl", content)), folder / "a.csv"]
    with files[1].open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *(("a", cell) for cell in cells)])
    try:
        labels = [json.loads(value) for value in values]
        return [*files, Dataset.from_dict({"text": ["a"] * len(labels), "label": labels})]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, AttributeError):
        return files


@pytest.mark.parametrize(("names", "values", "cells", "kind", "expected"), documented())
def test_a_label_is_read_as_the_page_says(tmp_path, names, values, cells, kind, expected):
    for data in sources(tmp_path, values, cells):
        if kind == "refused":
            with pytest.raises(ValueError, match=r"(line|row) \d.*label"):
                load_texts(data, TextColumns(names=names), **OPTIONAL)
            continue
        labels = labels_of(load_texts(data, TextColumns(names=names), **OPTIONAL))
        if kind == "no":
            assert labels == [None] * len(labels)
        elif kind == "scores":
            assert labels == pytest.approx(expected)
        else:
            assert labels == expected


INDEX = ClassLabel(names=["1", "0"])
COLUMNS = {
    # a column of a data set, and its labels; None is missing
    "large list": (LargeList(Value("int64")), [[0, 1, 1], [1, 0, 0]], [["1", "2"], ["0"]]),
    "list of fixed length": (List(Value("float32"), length=3), [[0, 1, 1], [1, 0, 0]], [["1", "2"], ["0"]]),
    "large text": (Value("large_string"), ["a", None], ["a", None]),
    "NaN": (Value("float64"), [0.5, math.nan], [0.5, None]),
    "indices": (INDEX, [0, -1], ["1", None]),
    "lists of indices": (List(INDEX), [[0, 1], [1]], [["0", "1"], ["0"]]),
    "large lists of indices": (LargeList(INDEX), [[0, 1], [1]], [["0", "1"], ["0"]]),
    "numbers": (Value("int8"), [0, -1], ["0", "-1"]),
}


@pytest.mark.parametrize("form", [None, "numpy", "torch", "pandas", "arrow"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_every_type_and_format_are_read(name, form):
    feature, values, expected = COLUMNS[name]
    features = Features({"text": Value("string"), "label": feature})
    rows = Dataset.from_dict({"text": ["a", "b"], "label": values}, features=features)
    labels = labels_of(load_texts(rows.with_format(form), **OPTIONAL))
    assert [sorted(label) if isinstance(label, list) else label for label in labels] == expected


def test_a_dictionary_is_read_and_a_transform_is_refused():
    encoded = pyarrow.array(["x", "y"]).dictionary_encode()
    rows = Dataset(pyarrow.table({"text": ["a", "b"], "label": encoded}))
    assert labels_of(load_texts(rows)) == ["x", "y"]
    with pytest.raises(ValueError, match="transform"):
        load_texts(rows.with_transform(lambda batch: batch))


TABS = {
    # a .tsv file, its rows, or a word of the error
    "pandas": ('text\tlabel\n"say ""a"""\tx\nb\ty\n', 'say "a" = x; b = y'),
    "all in quotes": ('"text"\t"label"\n"a"\t"x"\n"b"\t"y"\n', "a = x; b = y"),
    "lines": ('text\tlabel\n"a ""b""\nc"\tx\n', 'a "b"\nc = x'),
    "GLUE": ('text\tlabel\n"a\tx\nb" c\ty\n"d"\tz\n', '"a = x; b" c = y; "d" = z'),
    "GLUE with doubled quotes": ('text\tlabel\nsay ""a""\tx\n', 'say ""a"" = x'),
    "both": ('text\tlabel\nsay "a"\tx\n"say ""b"""\ty\n', "line 3"),
    "either": ('text\tlabel\nc\tx\n"a\nb"\tx\n', "line 3"),
    "a tab": ('text\tlabel\n"a\tb"\tx\n', "line 2"),
}


@pytest.mark.parametrize("name", TABS)
def test_quotes_of_a_table_with_tabs(tmp_path, name):
    content, expected = TABS[name]
    path = write(tmp_path, ("a.tsv", content))
    if expected.startswith("line"):
        with pytest.raises(ValueError, match=rf"a\.tsv, {expected}: .*quotes"):
            load_texts(path)
        return
    assert shown(load_texts(path)) == expected


def test_all_missing_columns_are_named(tmp_path):
    path = write(tmp_path, [{"sentence": "a"}])
    with pytest.raises(ValueError, match=r"line 1: .*'words'.*'class'.*--text_column_names.*--label_column_name"):
        load_texts(path, TextColumns(("words",), "class"))
    with pytest.raises(ValueError, match=r"'label'.*--text_column_names.*--label_column_name"):
        load_texts(write(tmp_path, [{"words": "a"}]))
    with pytest.raises(ValueError, match=r"'context or question'.*'choices'.*'label'.*--label_column_name"):
        load_choices(write(tmp_path, [{"words": "a"}]))
    with pytest.raises(ValueError, match=r"'context'.*'question'.*'answers'"):
        load_squad(write(tmp_path, [{"id": "1"}]))


def test_scores_beyond_32_bits_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"line 1.*1e\+39.*too large"):
        load_texts(write(tmp_path, [{"text": "a", "label": 1e39}]))


def test_a_name_that_is_the_index_of_another(tmp_path):
    columns = TextColumns(names=("1", "0"), problem_type=SINGLE_LABEL)
    assert labels_of(load_texts(write(tmp_path, [{"text": "a", "label": "0"}]), columns)) == ["0"]
    with pytest.raises(ValueError, match=r"line 1: .*index"):
        load_texts(write(tmp_path, [{"text": "a", "label": 0}]), columns)
    with pytest.raises(ValueError, match="list of 2 numbers"):
        load_texts(write(tmp_path, [{"text": "a", "label": [0, 1, 1]}]), TextColumns(names=("1", "0")))


DIGITS = ["3", "2", "1", "0"]
CHOSEN = {
    # choices, the label in JSON, the same in a cell; the index in JSON, and in a cell: None is missing, "" is refused
    "an index": (DIGITS, 1, "1", 1, ""),
    "a text": (DIGITS, "1", "1", 2, ""),
    "an index that is the text": (["0", "1"], 1, "1", 1, 1),
    "an index as a float": (["a", "b"], 1.0, "1.0", 1, 1),
    "a fraction": (["a", "b"], 0.5, "0.5", "", ""),
    "a letter": (["x", "y"], "b", "B", 1, 1),
    "a letter that is a text": (["B", "A"], "A", "A", 1, 1),
    "a text that is there twice": (["1", "1"], "1", "1", "", ""),
    "blanks": (["x y", "z"], " x  y ", " x  y ", 0, 0),
    "NaN": (["x", "y"], math.nan, "nan", None, None),
    "a choice nan": (["x", "nan"], "nan", "nan", 1, 1),
    "a choice -1": (["1", "-1"], "-1", "-1", 1, ""),
    "-1": (["x", "y"], -1, "-1", None, None),
    "a list as text": (["[1]", "[2]"], "[2]", "[2]", 1, 1),
    "names": ({"text": ["x", "y"], "label": ["1", "2"]}, "1", None, 0, None),
    "a number and names": ({"text": ["x", "y"], "label": ["1", "2"]}, 1, None, "", None),
    "an index and letters": ({"text": ["x", "y"], "label": ["A", "B"]}, 1, None, 1, None),
    "a name that is there twice": ({"text": ["x", "y"], "label": ["A", "A"]}, "A", None, "", None),
    "too few names": ({"text": ["x", "y"], "label": ["A"]}, "A", None, "", None),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_choice_of_a_label(tmp_path, name):
    choices, value, cell, expected, in_a_cell = CHOSEN[name]
    rows = write(tmp_path, [{"context": "a", "question": "b?", "choices": choices, "label": value}])
    cases = [(rows, expected)]
    if cell is not None:
        endings = [f"ending{index}" for index in range(len(choices))]
        path = tmp_path / "a.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("sent1", "sent2", *endings, "label"), ("a", "b?", *choices, cell)])
        cases.append((path, in_a_cell))
    for data, index in cases:
        if index == "":
            with pytest.raises(ValueError, match=r"line [12]: "):
                load_choices(data, **OPTIONAL)
            continue
        assert load_choices(data, **OPTIONAL).to_dict().get("label", [None]) == [index]


def test_choices_of_a_data_set(tmp_path):
    rows = {"context": ["a", "b"], "choices": [["x", "y"]] * 2, "label": [0, -1]}
    features = Features({"context": Value("string"), "choices": LargeList(Value("string")), "label": None})
    for names, expected in (["A", "B"], 0), (["B", "A"], 1), (["y", "x"], 1), (["0", "1"], 0):
        typed = Dataset.from_dict(rows, features=Features({**features, "label": ClassLabel(names=names)}))
        chosen = load_choices(typed.with_format("torch"), ChoiceColumns(), **OPTIONAL)
        assert chosen["known_label"][:] == [expected, None]


INVISIBLE = ["\ufe0f", "\u200b", "\u200d", "\u200e", "\u200f", "\u2060", "\u00ad", "\ufeff", "\u034f", "\u115f"]
INVISIBLE += ["\u17b4", "\u180b", "\u2065", "\u3164", "\uffa0", "\ufe00", "\U000e0100", "\U000e0fff"]
LOOK_ALIKES = [
    *((f"a{sign}b", "ab") for sign in INVISIBLE),
    *((f"ab{sign}", "ab") for sign in INVISIBLE),
    ("\uff53\uff50", "sp"),
    ("\ufb01n", "fin"),
    ("non\u2011fiction", "non-fiction"),
    ("non\u2013fiction", "non-fiction"),
]


@pytest.mark.parametrize("names", LOOK_ALIKES, ids=ascii)
def test_names_that_look_equal_are_refused(tmp_path, names):
    rows = [{"text": "t", "label": name} for name in names]
    with pytest.raises(ValueError, match=r"line \d: the label .*spelling") as caught:
        load_texts(write(tmp_path, rows))
    assert not {*INVISIBLE} & {*str(caught.value)}


def test_a_name_without_a_visible_character_is_refused(tmp_path):
    rows = [{"text": "t", "label": name} for name in ("a", "\u3164")]
    with pytest.raises(ValueError, match=r"line 2: .*visible"):
        load_texts(write(tmp_path, rows))


@pytest.mark.parametrize("joint", [",", ", ", ";", "|", "/", "#", " + ", " and ", "\uff0c", "\u3001", "\uff1b", "\\"])
def test_a_name_that_joins_two_classes_is_refused(tmp_path, joint):
    rows = [{"text": "t", "label": name} for name in ("food", "room", f"food{joint}room")]
    with pytest.raises(ValueError, match=r'line 3: .*\["food", "room"\]'):
        load_texts(write(tmp_path, rows))
    assert len(load_texts(write(tmp_path, rows[1:]))) == 2  # "food" alone is no class


def test_names_that_differ_by_case_or_blanks_are_logged(tmp_path, caplog):
    load_texts(write(tmp_path, [{"text": "t", "label": name} for name in ("Spam", "spam", "not spam", "notspam")]))
    assert "'Spam' and 'spam' differ" in caplog.text
    assert "'not spam' and 'notspam' differ" in caplog.text
