"""The one way in which the rows of all tasks are checked, and rows with an empty text left out."""

import pytest
from datasets import Dataset, Features, Value

from hf_localattn.data.choices import load_choices
from hf_localattn.data.negation import load_negation
from hf_localattn.data.questions import load_answered, load_squad
from hf_localattn.data.rows import INDEX, Column, Source, convert_rows, read_rows, row_numbers
from hf_localattn.data.texts import GLUE_TASKS, TextColumns, load_texts
from hf_localattn.data.words import load_sentences
from tests.qa_helpers import question, write_jsonl

NO_ANSWER = {"text": [], "answer_start": []}
CHOICE = {"context": "the cat", "question": "where?", "choices": ["mat", "dog"], "label": 0}
CUE = {"tokens": ["I", "never", "did"], "cue": [0, 1, 0], "scope": [1, 0, 1]}


def named(load):
    return lambda data, name="data set", **options: load(Source(name, data), **options)


def texts(load):
    return lambda data, *name, **options: load(data, TextColumns(), *name, **options)


TASKS = {
    "questions": (load_squad, named(load_squad), question(0)),
    "answered": (load_answered, named(load_answered), question(0)),
    "texts": (texts(load_texts), named(texts(load_texts)), {"text": "the", "text_pair": "cat", "label": "a"}),
    "choices": (load_choices, named(load_choices), CHOICE),
    "sentences": (load_sentences, named(load_sentences), {"tokens": ["a"], "labels": ["O"]}),
    "negation": (load_negation, named(load_negation), CUE),
}
"""The two readers of each task, and a row."""

EMPTY = [
    # task, what makes its row empty
    *(("questions", {name: " ", "answers": NO_ANSWER}) for name in ("context", "question")),
    ("questions", {"context": None, "answers": NO_ANSWER}),
    ("answered", {"context": "\n", "answers": NO_ANSWER}),
    ("answered", {"question": ""}),
    *(("texts", {name: value}) for name in ("text", "text_pair") for value in ("", "\u00a0", None)),
    ("choices", {"choices": ["mat", " "]}),
    ("choices", {"choices": ["mat", None]}),
    ("choices", {"context": ""}),
    ("choices", {"question": "\t"}),
    ("sentences", {"tokens": [], "labels": []}),
    ("sentences", {"tokens": [" "], "labels": ["O"]}),
    ("negation", {"tokens": [], "cue": [], "scope": []}),
    ("negation", {"tokens": [" ", ""], "cue": [1, 0], "scope": [0, 1]}),
]
KEPT = [{"context": ""}, {"question": "\t"}, {"tokens": [], "labels": []}, {"tokens": [" "], "labels": ["O"]}]
"""Rows that may be empty, as some models have something else to read."""


def rows_with(task, change):
    """Three rows, of which the one in the middle is empty."""
    row = TASKS[task][2]
    return [{**row, "id": f"q{number}", **(change if number == 1 else {})} for number in range(3)]


@pytest.mark.parametrize("source", ["file", "data set"])
@pytest.mark.parametrize(("task", "change"), EMPTY)
def test_rows_with_an_empty_text(tmp_path, caplog, task, change, source):
    load, normalize, _ = TASKS[task]
    rows = rows_with(task, change)

    def read(**options):
        if source == "file":
            return load(write_jsonl(tmp_path / "a.jsonl", rows), **options)
        return normalize(Dataset.from_list(rows), "hub", **options)

    places = ("line 2", "line 3") if source == "file" else ("row 2", "row 3")
    if change in KEPT:
        assert len(read()) == 3
    else:
        with pytest.raises(
            ValueError,
            match=rf"{places[0]} \(id q1\): .* leave out such rows with skip_empty=True \(scripts: --skip_empty\)",
        ):
            read()
    kept = read(skip_empty=True)
    assert kept[INDEX][:] == [0, 2] == list(row_numbers(kept))
    assert f"leaving out 1 of 3 rows, which have an empty text: {places[0]}." in caplog.text


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_left_out_of_whole_rows(tmp_path, caplog, task):
    load, _, row = TASKS[task]
    path = write_jsonl(tmp_path / "a.jsonl", [row, {**row, "id": "q1"}])
    rows = load(path, skip_empty=True)
    assert rows.to_list() == load(path).to_list()
    assert row_numbers(rows) == range(2)
    assert not caplog.text


@pytest.mark.parametrize("task", TASKS)
def test_something_has_to_be_left(tmp_path, task):
    change = next(change for name, change in EMPTY if name == task)
    path = write_jsonl(tmp_path / "a.jsonl", [rows_with(task, change)[1]])
    with pytest.raises(ValueError, match=r"a\.jsonl: all 1 rows have an empty text, so --skip_empty leaves none"):
        TASKS[task][0](path, skip_empty=True)
    with pytest.raises(ValueError, match="hub: all 1 rows have an empty text"):
        TASKS[task][1](Dataset.from_list([rows_with(task, change)[1]]), "hub", skip_empty=True)


def test_errors_and_names_count_the_rows_that_are_left_out(tmp_path):
    rows = [question(0), question(1, context=""), question(2, id="q0")]
    with pytest.raises(ValueError, match="questions 1 and 3 have the same id 'q0'"):
        load_squad(write_jsonl(tmp_path / "a.jsonl", rows), skip_empty=True)
    rows = [{"tokens": []}, {"tokens": ["a"], "labels": ["O"]}, {"tokens": ["a"]}]
    with pytest.raises(ValueError, match="sentence 3: has no labels"):
        load_sentences(write_jsonl(tmp_path / "b.jsonl", rows), require_labels=False, skip_empty=True)
    cues = load_negation(write_jsonl(tmp_path / "c.jsonl", [{**CUE, "tokens": []}, CUE]), skip_empty=True)
    assert cues["id"][:] == ["2"]
    rows = [CHOICE, {**CHOICE, "context": ""}, {**CHOICE, "choices": ["a", "b", "c"]}]
    with pytest.raises(ValueError, match="line 3: 3 choices, but 2 in the first row"):
        load_choices(write_jsonl(tmp_path / "d.jsonl", rows), skip_empty=True)


def test_other_errors_are_errors_still(tmp_path):
    rows = [question(0, context=""), question(1, context=3)]
    with pytest.raises(ValueError, match=r"line 2 .* must be a text; found 3"):
        load_squad(write_jsonl(tmp_path / "a.jsonl", rows), skip_empty=True)
    with pytest.raises(ValueError, match=r"line 1 .*: the field 'question' is missing"):
        load_squad(write_jsonl(tmp_path / "b.jsonl", [{"id": 1, "context": "a"}]), skip_empty=True)


def test_many_rows_that_are_left_out_are_not_all_named(tmp_path, caplog):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "" if n else "a", "label": "a"} for n in range(30)])
    load_texts(path, TextColumns(), skip_empty=True)
    assert "leaving out 29 of 30 rows" in caplog.text
    assert "line 11, …" in caplog.text
    assert "line 12" not in caplog.text


def test_empty_texts_and_missing_labels(tmp_path, caplog):
    rows = [{"text": text, "label": label} for text, label in (("a", "x"), ("", "x"), ("b", None), ("c", "y"))]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    kept = load_texts(path, TextColumns(skip_unlabeled=True), skip_empty=True)
    assert (kept["text"][:], kept[INDEX][:]) == (["a", "c"], [0, 3])
    assert "leaving out 1 of 4 rows, which have an empty text: line 2." in caplog.text
    assert "leaving out 1 of 3 rows, which have no label." in caplog.text
    with pytest.raises(ValueError, match="line 3: the field 'label' holds no label"):
        load_texts(path, TextColumns(), skip_empty=True)


def test_a_half_that_may_be_empty_is_left_out_if_it_is_asked_for(tmp_path):
    row = {"question1": "cat", "question2": "", "label": 0}
    path = write_jsonl(tmp_path / "a.jsonl", [row, {**row, "question2": "dog"}])
    assert len(load_texts(path, GLUE_TASKS["qqp"])) == 2
    assert load_texts(path, GLUE_TASKS["qqp"], skip_empty=True)[INDEX][:] == [1]


def test_the_first_row_need_not_have_a_text(tmp_path):
    rows = [{"text": None, "label": "a"}, {"text": "cat", "label": "b"}]
    assert load_texts(write_jsonl(tmp_path / "a.jsonl", rows), TextColumns(), skip_empty=True)["text"][:] == ["cat"]
    assert load_texts(Dataset.from_list(rows), TextColumns(), skip_empty=True)["text"][:] == ["cat"]


def test_questions_that_are_not_needed_may_be_empty(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [question(0, question=""), question(1, context=" ")])
    assert load_answered(path, require_questions=False, skip_empty=True)["id"][:] == ["q0"]


def test_a_document_without_text(tmp_path, caplog):
    error = '<ERROR start_off="1" end_off="1" type="S"/>'
    documents = [f"<DOC><TEXT id='d{n}'>{text}</TEXT>{error * bool(text)}</DOC>" for n, text in enumerate(["", "ab"])]
    (tmp_path / "a.xml").write_text("".join(documents))
    assert load_sentences(tmp_path / "a.xml", skip_empty=True)[INDEX][:] == [1]
    assert "leaving out 1 of 2 rows, which have an empty text: DOC 1." in caplog.text
    with pytest.raises(ValueError, match=r"DOC 1 \(id d0\): its TEXT is empty; .* --skip_empty"):
        load_sentences(tmp_path / "a.xml")


def test_columns_with_several_names():
    column = Column(("words", "tokens"), list, remedy="name it")
    assert column.read({"tokens": ["a"], "words": ["b"]}) == ["b"]
    assert column.read({"tokens": ["a"]}) == ["a"]
    with pytest.raises(ValueError, match=r"the field 'words or tokens' is missing \(found text\); name it\."):
        column.read({"text": "a"})
    with pytest.raises(ValueError, match=r"the field 'tokens' must be a list of texts; found a list of 1"):
        column.read({"tokens": [1]})
    assert Column("title", required=False).read({}) is None


def test_a_column_that_a_data_set_lacks():
    columns, source = [Column("a"), Column("b", required=False)], Source("hub", Dataset.from_dict({"b": ["x"]}))
    with pytest.raises(ValueError, match=r"hub: has no column 'a' \(it has b\)\."):
        convert_rows(source, columns, Features({"a": Value("string")}), dict)


@pytest.mark.timeout(10)  # counting each of 40,000 names among all takes half a minute
def test_a_wide_header_is_read_in_linear_time(tmp_path):
    names = [f"column_{number}" for number in range(40_000)]
    path = tmp_path / "wide.csv"
    for header, remainder in (([*names, "column_7"], "column_7"), (names, None)):
        path.write_text(",".join(header) + "\n" + ",".join(["1"] * len(header)) + "\n")
        if remainder is None:
            assert list(read_rows(path)[0][1]) == names
        else:
            with pytest.raises(ValueError, match=r"wide\.csv, line 1: the column 'column_7' is there twice"):
                read_rows(path)
