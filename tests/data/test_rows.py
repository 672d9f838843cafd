"""Rows of all tasks: what is read from files, data sets and streams, and what is refused where."""

import json

import pyarrow
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.data import (
    Source,
    count_unanswerable,
    load_answered,
    load_choices,
    load_negation,
    load_sentences,
    load_squad,
    load_texts,
)
from hf_localattn.data.choices import ChoiceColumns
from hf_localattn.data.rows import INDEX, row_numbers
from hf_localattn.data.texts import GLUE_TASKS, REGRESSION, SINGLE_LABEL, TextColumns
from hf_localattn.data.words import TokenColumns
from tests.data.notation import columns, shown
from tests.qa_helpers import question

NO_ANSWER = {"text": [], "answer_start": []}
MAT = {"text": ["mat"], "answer_start": [4]}
ASKED = {"id": "q", "context": "the mat sat", "question": "who?", "answers": MAT}
QUESTION = "q: the mat sat who? mat@4"
PARAGRAPHS = [
    {
        "context": "the mat sat",
        "qas": [{"id": "q", "question": "who?", "answers": [{"text": "mat", "answer_start": 4}]}],
    },
    {"context": "it", "qas": [{"id": 7, "question": "why?", "answers": [], "is_impossible": True}]},
]
CHOICE = {"context": "the cat.", "question": "where?", "choices": ["mat", "dog"], "label": 1}
SWAG = {"video-id": "v", "startphrase": "it sat. the dog", "sent1": "it sat.", "sent2": "the dog", "gold-source": "g"}
SWAG |= {"ending0": "sat.", "ending1": 'sat "on" the, cat.', "ending2": "on.", "label": "2"}
WORDS = {"id": "0", "tokens": ["the", "cat"], "ner_tags": ["O", "B-x"], "pos_tags": ["DET", "NOUN"]}
CUE = columns("I [never] DID")
QQP = {"question1": "cat", "question2": "", "label": 0}


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


def texts(*labels, **columns):
    return [{"text": "abcd"[i], "label": label, **columns} for i, label in enumerate(labels)]


SAT = "the cat."
MATS, DOGS = f"{SAT}: [where? mat] | where? dog", f"{SAT}: where? mat | [where? dog]"
SWAG_SHOWN = 'it sat.: the dog sat. | the dog sat "on" the, cat. | [the dog on.]'
SETS_IN_CELLS = 'text,label\na,"[""x"", ""y""]"\nb,[]\nc,\n'
LINES = json.dumps(ASKED) + "\n" + json.dumps({**ASKED, "id": 1})
ARTICLES = json.dumps({"data": [{"title": "t", "paragraphs": PARAGRAPHS}]})
NAMED = {"context": "a", "choices": {"text": ["m", "d"], "label": ["1", "0"]}, "label": "0"}
OPTIONAL, SKIPPING, LAYOUT = {"require_labels": False}, {"skip_empty": True}, TextColumns(("t",), "c")
SENTIMENTS = [{"sentence": text, "label": label} for text, label in zip("abc", ("positive", "0", 1), strict=True)]
BARE = [{"tokens": ["a"]}, {"tokens": ["b"], "ner_tags": None}, {"tokens": ["c"], "ner_tags": [-1]}]

# of each loader and case: rows, or a file's name and content; the rows as `shown`, joined by "; "; options
GOOD = {
    (load_texts, "classes"): (texts("b", "a"), "a = b; b = a"),
    (load_texts, "a class called -1"): (texts(-1, 1), "a = -1; b = 1"),
    (load_texts, "a table"): (("a.csv", 'text,label\n"a, b",1\nc,0\n'), "a, b = 1; c = 0"),
    (load_texts, "tabs without quotes"): (("a.tsv", 'text\tlabel\n"a\t1\n\nb"\t0\n'), '"a = 1; b" = 0'),
    (load_texts, "a list"): (("a.json", json.dumps(texts(True, False))), "a = true; b = false"),
    (load_texts, "white space"): (("a.json", texts(" two\twords ", "x")), "a = two words; b = x"),
    (load_texts, "scores"): (texts(1, 2.5), "a = 1.0; b = 2.5"),
    (load_texts, "scores as text"): (texts("1", "2.5"), "a = 1.0; b = 2.5"),
    (load_texts, "scores if said"): (
        texts(1, 2),
        "a = 1.0; b = 2.0",
        {"layout": TextColumns(problem_type=REGRESSION)},
    ),
    (load_texts, "classes if said"): (texts("1.5"), "a = 1.5", {"layout": TextColumns(problem_type=SINGLE_LABEL)}),
    (load_texts, "sets"): (texts(["b", "a"], []), "a = ['a', 'b']; b = []"),
    (load_texts, "sets of numbers"): (texts([3], [0, 10]), "a = ['3']; b = ['0', '10']"),
    (load_texts, "sets in cells"): (("a.csv", SETS_IN_CELLS), "a = ['x', 'y']; b = []; c = None", OPTIONAL),
    (load_texts, "names"): (SENTIMENTS, "a = positive; b = negative; c = positive", {"layout": GLUE_TASKS["sst2"]}),
    (load_texts, "no label"): (texts("x", None, -1), "a = x; b = None; c = None", OPTIONAL),
    (load_texts, "unlabeled"): (texts("x", None, ""), "a = x", {"layout": TextColumns(skip_unlabeled=True)}),
    (load_texts, "pairs"): ([{"label": "x", "sentence2": "b", "sentence1": "a"}], "a + b = x"),
    (load_texts, "premises"): ([{"premise": "a", "hypothesis": "b", "label": "x"}], "a + b = x"),
    (load_texts, "a title"): ([{"text": "a", "title": "b", "label": "x"}], "a = x"),
    (load_texts, "named columns"): ([{"text": "a", "t": "b", "c": "x"}], "b = x", {"layout": LAYOUT}),
    (load_texts, "an empty half"): ([QQP], "cat +  = not_duplicate", {"layout": GLUE_TASKS["qqp"]}),
    (load_squad, "questions"): ([ASKED, {**ASKED, "id": 8, "answers": NO_ANSWER}], f"{QUESTION}; 8: the mat sat who?"),
    (load_squad, "SQuAD"): (("a.json", ARTICLES), f"{QUESTION}; 7: it why?"),
    (load_squad, "data"): (("a.json", json.dumps({"data": [ASKED]})), QUESTION),
    (load_squad, "lines in .json"): (("a.json", LINES), f"{QUESTION}; 1{QUESTION[1:]}"),
    (load_squad, "a list"): ([{**ASKED, "answers": [{"text": "mat", "answer_start": 4}]}], QUESTION),
    (load_squad, "U+2028"): (
        ("a.jsonl", json.dumps({**ASKED, "question": "\u2028?"}, ensure_ascii=False)),
        "q: the mat sat \u2028? mat@4",
    ),
    (load_squad, "no answers"): ([without(ASKED, "answers")], "q: the mat sat who?", {"require_answers": False}),
    (load_answered, "answered"): (
        [{**ASKED, "answers": NO_ANSWER, "id": "p"}, ASKED, {**ASKED, "id": "r"}],
        f"{QUESTION}; r{QUESTION[1:]}",
    ),
    (load_answered, "nothing asked"): (
        [without(ASKED, "question")],
        "q: the mat sat - mat@4",
        {"require_questions": False},
    ),
    (load_choices, "SWAG"): ([SWAG], SWAG_SHOWN),
    (load_choices, "a phrase"): (
        [without(SWAG, "sent1", "sent2")],
        'it sat. the dog: sat. | sat "on" the, cat. | [on.]',
    ),
    (load_choices, "eleven endings"): (
        [{"sent1": "a", **{f"ending{i}": f"{i}" for i in range(11)}, "label": 10}],
        "a: 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | [10]",
    ),
    (load_choices, "choices"): ([CHOICE, {**CHOICE, "label": 0}], f"{DOGS}; {MATS}"),
    (load_choices, "a letter"): ([{**CHOICE, "label": " b "}], DOGS),
    (load_choices, "a text"): ([{**CHOICE, "label": "where? mat"}], MATS),
    (load_choices, "only a question"): (
        [{**CHOICE, "answer": "B"}],
        "where?: mat | [dog]",
        {"columns": ChoiceColumns(context="none", label="answer")},
    ),
    (load_choices, "only a context"): (
        [{**CHOICE, "stem": "who?"}],
        "who?: mat | [dog]",
        {"columns": ChoiceColumns("stem", "none")},
    ),
    (load_choices, "names of choices"): ([NAMED], "a: m | [d]"),
    (load_choices, "cells"): (
        ("a.csv", 'context,choices,label\nthe cat,"[""runs"", ""flies""]",flies\n'),
        "the cat: runs | [flies]",
    ),
    (load_choices, "no right choice"): (
        [{**CHOICE, "label": label} for label in (None, "", -1)],
        "; ".join([f"{SAT}: where? mat | where? dog"] * 3),
        OPTIONAL,
    ),
    (load_sentences, "words"): ([WORDS, {**WORDS, "tokens": [], "ner_tags": []}], "the/O cat/B-x; "),
    (load_sentences, "parts of speech"): (
        [{**WORDS, "labels": ["1", "2"]}],
        "the/DET cat/NOUN",
        {"columns": TokenColumns(task="pos")},
    ),
    (load_sentences, "columns of words"): (
        [{**WORDS, "w": ["a", "b"], "labels": ["1", "2"]}],
        "a/1 b/2",
        {"columns": TokenColumns("w", "labels")},
    ),
    (load_sentences, "numbers"): ([{**WORDS, "ner_tags": [0, 2]}], "the/0 cat/2"),
    (load_sentences, "names of numbers"): (
        [{**WORDS, "ner_tags": [0, 2]}],
        "the/O cat/B",
        {"columns": TokenColumns(names=["O", "A", "B"])},
    ),
    (load_sentences, "bare words"): (BARE, "a; b; c", OPTIONAL),
}


def write(folder, name, content):
    if isinstance(content, list):
        content = "".join(json.dumps(row) + "\n" for row in content)
    (folder / name).write_bytes(content.encode())
    return folder / name


@pytest.mark.parametrize(("load", "name"), GOOD)
def test_files_data_sets_and_streams_are_read_the_same_way(tmp_path, load, name):
    content, expected, *options = GOOD[load, name]
    given = dict(*options)
    if isinstance(content, tuple):
        assert "; ".join(shown(load(write(tmp_path, *content), **given))) == expected
        return
    part = Source("s", [(f"line {i}", row) for i, row in enumerate(content, 6)], first=5)
    for data in (write(tmp_path, "a.jsonl", content), part):
        assert "; ".join(shown(load(data, **given))) == expected
    try:
        rows = Dataset.from_list(content)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # values of several types, which only files have
        return
    assert "; ".join(shown(load(rows, **given))) == expected


# of each loader: rows, or a file's name and content; place; word; options
REFUSED = {
    load_texts: [
        ([{"words": "a", "label": 1}], "", "words, label"),
        (texts(1), "line 1", "--text_column_names", {"layout": TextColumns(("words",))}),
        (texts(1, text=None), "line 1", "None", {"layout": TextColumns(("text",))}),
        ([*texts(1), {"text": 3, "label": 1}], "line 2", "found 3"),
        ([*texts(1), [1]], "line 2", "object with text, label"),
        (texts(1), "line 1", "'class'", {"layout": TextColumns(label="class")}),
        (texts(1, None), "line 2", "no label; found None"),
        (texts("a", " "), "line 2", "no label", SKIPPING),
        ([{"sentence": "a", "label": -1}], "line 1", "no label", {"layout": GLUE_TASKS["sst2"]}),
        (texts(["a"], "b"), "line 2", "list"),
        (texts("a", {"b": 1}), "line 2", "object with b"),
        (texts(["a", ["b"]]), "line 1", "name or a whole number"),
        (texts(1.5, "many"), "line 2", "'many'"),
        (texts(1.5, True), "line 2", "True"),
        (texts(1.5, float("inf")), "line 2", "inf"),
        (texts(0, 2), "line 2", "label 2", {"layout": TextColumns(names=("a", "b"))}),
        (
            texts(0, -1),
            "line 2",
            "no label; found -1",
            {"layout": TextColumns(names=("a", "b"), problem_type=SINGLE_LABEL)},
        ),
        (texts(None, ""), "", "no row has a label", {"layout": TextColumns(skip_unlabeled=True)}),
        ([{**QQP, "question1": " "}], "line 1", "empty", {"layout": GLUE_TASKS["qqp"]}),
        (("a.json", "[]"), "", "no texts"),
        (("a.csv", "text,label,text\na,b,c\n"), "line 1", "'text' is there twice"),
        (("a.csv", 'text,label\n"a\nb",c\nd\n'), "line 4", "1 fields"),
        (("a.csv", 'text,label\n"a"b,c\n'), "line 2", "expected"),
    ],
    load_squad: [
        ([ASKED, {**ASKED, "context": 3}], "line 2 \\(id q\\)", "found 3"),
        ([without(ASKED, "answers")], "line 1 \\(id q\\)", "'answers'"),
        ([without(ASKED, "id")], "line 1", "'id'"),
        ([{**ASKED, "id": True}], "line 1", "'id'"),
        ([{**ASKED, "answers": "mat"}], "line 1", "'answers'"),
        ([{**ASKED, "answers": {"text": ["a", "b"], "answer_start": [1]}}], "line 1", "equal length"),
        ([{**ASKED, "answers": {"text": ["mat"], "answer_start": ["4"]}}], "line 1", "found '4'"),
        ([{**ASKED, "answers": {"text": ["mat"], "answer_start": [True]}}], "line 1", "True"),
        ([{**ASKED, "answers": {"text": [" "], "answer_start": [3]}}], "line 1", "non-empty"),
        ([{**ASKED, "answers": {"text": ["at"], "answer_start": [4]}}], "line 1", "occurs at 5, 9:"),
        ([{**ASKED, "answers": {"text": ["mat"], "answer_start": [-7]}}], "line 1", "answer_start -7"),
        ([{**ASKED, "answers": {"text": ["cow"], "answer_start": [0]}}], "line 1", "nowhere"),
        *(
            ([{**ASKED, "context": "a" * count, "answers": {"text": ["a"], "answer_start": [9]}}], "line 1", places)
            for count, places in ((5, "0, 1, 2, 3, 4: correct"), (6, r"0, 1, 2, 3, 4, \.\.\.: correct"))
        ),
        ([{**ASKED, "is_impossible": True}], "line 1", "is_impossible"),
        ([ASKED, ASKED], "questions 1 and 2", "'q'"),
        (
            ("a.json", json.dumps([{"paragraphs": [PARAGRAPHS[0], {"context": "a", "qas": [{"id": "r"}]}]}])),
            "article 1, paragraph 2, question 1",
            "'question'",
        ),
        (("a.json", json.dumps([{"paragraphs": [{"context": "a"}]}])), "article 1, paragraph 1", "'qas'"),
        (("a.json", json.dumps([{"paragraphs": [{"qas": []}]}])), "", "no questions"),
        ("", "", "empty"),
        (("a.json", '{"rows": []}'), "", "expected a list of rows.* object with rows"),
        (("a.json", "[" * 2000), "line 1", "JSON"),
        (("a.json", '[\n{"id": }]'), "line 2, column 8", "JSON"),
        (json.dumps(ASKED) + "\n\n{oops\n", "line 3, column 2", "JSON"),
        (("a.json", "[1]"), "record 1", "object"),
        ([ASKED, {**ASKED, "context": ""}, ASKED], "questions 1 and 3", "same id", SKIPPING),
        ([{**ASKED, "context": ""}, {**ASKED, "context": 3}], "line 2", "found 3", SKIPPING),
        ([{"id": 1, "context": "a"}], "line 1", "'question'", SKIPPING),
        (("a.csv", "id,question"), "", "\\.csv"),
        (("a", "id,question"), "", "without an extension"),
    ],
    load_answered: [
        ([{**ASKED, "answers": NO_ANSWER}], "", "none of the 1 questions"),
        ([without(ASKED, "question")], "line 1", "'question'"),
        ([without(ASKED, "answers")], "line 1", "'answers'", {"require_questions": False}),
    ],
    load_choices: [
        ([CHOICE, {**CHOICE, "choices": ["a", "b", "c"]}], "line 2", "3 choices, but 2"),
        ([{**CHOICE, "choices": ["mat"]}], "line 1", "1 choices"),
        ([{**CHOICE, "choices": ["mat", 3]}], "line 1", "choice 1.* found 3"),
        ([{**CHOICE, "choices": "x" * 58}], "line 1", f"found '{'x' * 58}'[.]"),
        ([{**CHOICE, "choices": "x" * 59}], "line 1", f"found '{'x' * 56}[.][.][.][.]$"),
        ([CHOICE, {**CHOICE, "context": ""}, {**CHOICE, "choices": [*"abc"]}], "line 3", "3 choices", SKIPPING),
        *(([{**CHOICE, "label": label}], "line 1", f"label {label!r}") for label in (2, "C", True, 0.5)),
        ([{**CHOICE, "choices": {"text": ["a", "b"], "label": ["X", "Y"]}, "label": "Z"}], "line 1", "X, Y"),
        ([{**CHOICE, "label": None}], "line 1", "'label'"),
        ([{**CHOICE, "label": -1}], "line 1", "no label"),
        ([{**CHOICE, "context": 3}], "line 1", "found 3"),
        ([{**CHOICE, "question": None}], "line 1", "--question_column_name"),
        ([{"sent1": "a", "label": 0}], "line 1", "'choices' nor SWAG's.*sent1, label"),
        (("a.json", "[]"), "", "no rows"),
        (("a.json", "[1]"), "record 1", "object"),
    ],
    load_sentences: [
        ([WORDS, {**WORDS, "ner_tags": ["O"]}], "line 2 \\(id 0\\)", "2 words.* 1 labels"),
        ([{**WORDS, "tokens": "the cat"}], "line 1", "'tokens'"),
        ([{**WORDS, "tokens": ["the", 1]}], "line 1", "'tokens'"),
        ([{**WORDS, "ner_tags": "O O"}], "line 1", "'ner_tags'"),
        *(([{**WORDS, "ner_tags": ["O", label]}], "line 1", "label") for label in (0.5, True, "")),
        ([{**WORDS, "ner_tags": [0, 2]}], "line 1", "0 to 1", {"columns": TokenColumns(names=["O", "A"])}),
        ([{**WORDS, "ner_tags": [0, -1]}], "line 1", "-1", {"columns": TokenColumns(names=["O", "A"])}),
        ([WORDS], "line 1", "'words'.*--text_column_name", {"columns": TokenColumns(text="words")}),
        ([WORDS], "line 1", "'chunk_tags or labels'", {"columns": TokenColumns(task="chunk")}),
        ([WORDS, {"tokens": ["a"]}], "sentence 2", "no labels", OPTIONAL),
        ([{"tokens": []}, WORDS, {"tokens": ["a"]}], "sentence 3", "no labels", SKIPPING | OPTIONAL),
        (("a.json", "[]"), "", "no sentences"),
        (("a.html", "<a/>"), "", "\\.html"),
    ],
}


@pytest.mark.parametrize(("load", "case"), [(load, case) for load, cases in REFUSED.items() for case in cases])
def test_what_is_refused(tmp_path, load, case):
    content, place, word, *options = case
    name, content = content if isinstance(content, tuple) else ("a.jsonl", content)
    with pytest.raises(ValueError, match=rf"{name}(, |: ){place}.*{word}"):
        load(write(tmp_path, name, content), **dict(*options))


LOADERS = (load_texts, load_squad, load_answered, load_choices, load_sentences, load_negation)


@pytest.mark.parametrize("load", LOADERS)
def test_files_that_are_no_text(tmp_path, load):
    (tmp_path / "a.json").write_bytes('["é"]'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.json: is not UTF-8"):
        load(tmp_path / "a.json")
    with pytest.raises(FileNotFoundError, match=r"b\.json"):
        load(tmp_path / "b.json")
    (tmp_path / "c.json").mkdir()
    with pytest.raises(ValueError, match=r"c\.json: is a folder"):
        load(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("load", "rows", "options", "word"),
    [
        (load_texts, [{"text": "a"}], {}, "no column 'label'.*has text"),
        (load_texts, [{"label": 1}], {"layout": TextColumns(("text",))}, "no column 'text'"),
        (load_texts, texts(0, None), {}, "row 2: .*no label"),
        (load_squad, [{**ASKED, "answers": {"text": ["cow"], "answer_start": [0]}}], {}, r"row 1 \(id q\): .*'cow'"),
        (load_squad, [{"id": "q", "passage": "a"}], {}, "no column 'context', 'question', 'answers'"),
        (load_answered, [without(ASKED, "question")], {}, "no column 'question'"),
        (load_choices, [{**CHOICE, "label": 4}], {}, "row 1: .*label 4"),
        (load_sentences, [WORDS], {"columns": TokenColumns(task="chunk")}, "no column 'chunk_tags or labels'"),
        (load_negation, [{"tokens": ["a"]}], {}, "no column 'cue', 'scope'"),
    ],
)
def test_data_sets_that_are_refused(load, rows, options, word):
    with pytest.raises(ValueError, match=f"^hub(:|,) .*{word}" if "row" not in word else f"^hub, {word}"):
        load(Source("hub", Dataset.from_list(rows)), **options)
    with pytest.raises(ValueError, match="hub: holds no"):
        load(Source("hub", Dataset.from_list(rows).select([])), **options)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (ClassLabel(names=["z", "a"]), [0, 1], ["a = z", "b = a"]),
        (ClassLabel(names=["1", "0"]), [0, 1], ["a = 1", "b = 0"]),
        (ClassLabel(names=["z", "a"]), [-1, None], ["a = None", "b = None"]),
        (List(ClassLabel(names=["z", "a"])), [[0], [0, 1]], ["a = ['z']", "b = ['a', 'z']"]),
        (Value("int64"), [10, 9], ["a = 10", "b = 9"]),
        (Value("bool"), [True, False], ["a = true", "b = false"]),
    ],
)
def test_types_of_data_sets(kind, values, expected):
    features = Features({"text": Value("string"), "label": kind})
    rows = load_texts(
        Dataset.from_dict({"text": ["a", "b"], "label": values}, features=features), require_labels=False
    )
    assert shown(rows) == expected
    if hasattr(kind, "names"):
        assert rows.features["label"].names == kind.names


def test_class_names_of_words():
    kinds = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-x"]))})
    rows = Dataset.from_list([{"tokens": ["the", "cat"], "ner_tags": [0, 1]}], features=kinds)
    assert shown(load_sentences(rows)) == ["the/O cat/B-x"]


EMPTY = [
    # loader, a row, what makes it empty, True if such rows are kept unless skip_empty is set
    (load_squad, ASKED, {"context": " ", "answers": NO_ANSWER}, False),
    (load_squad, ASKED, {"context": None, "answers": NO_ANSWER}, False),
    (load_squad, ASKED, {"question": "\n"}, False),
    (load_answered, ASKED, {"question": ""}, False),
    *(
        (load_texts, {"text": "a", "text_pair": "b", "label": "x"}, {name: value}, False)
        for name in ("text", "text_pair")
        for value in ("", "\u00a0", None)
    ),
    (load_choices, CHOICE, {"choices": ["mat", " "]}, False),
    (load_choices, CHOICE, {"choices": ["mat", None]}, False),
    (load_choices, CHOICE, {"context": ""}, True),
    (load_choices, CHOICE, {"question": "\t"}, True),
    (load_sentences, {"tokens": ["a"], "labels": ["O"]}, {"tokens": [], "labels": []}, True),
    (load_sentences, {"tokens": ["a"], "labels": ["O"]}, {"tokens": [" "]}, True),
    (load_negation, CUE, {"tokens": [], "cue": [], "scope": []}, False),
    (load_negation, CUE, {"tokens": [" ", "", " "]}, False),
]


@pytest.mark.parametrize("kind", ["file", "data set"])
@pytest.mark.parametrize(("load", "row", "change", "kept"), EMPTY)
def test_rows_with_an_empty_text(tmp_path, caplog, load, row, change, kept, kind):
    rows = [{**row, "id": f"q{number}", **(change if number == 1 else {})} for number in range(3)]
    data = write(tmp_path, "a.jsonl", rows) if kind == "file" else Source("hub", Dataset.from_list(rows))
    place = "line 2" if kind == "file" else "row 2"
    if kept:
        assert len(load(data)) == 3
    else:
        with pytest.raises(ValueError, match=rf"{place} \(id q1\): .*--skip_empty"):
            load(data)
    some = load(data, skip_empty=True)
    assert some[INDEX][:] == [0, 2] == list(row_numbers(some))
    assert f"leaving out 1 of 3 rows, which have an empty text: {place}." in caplog.text
    whole = Dataset.from_list([rows[0], rows[2]])
    assert load(whole, skip_empty=True).to_list() == load(whole).to_list()
    assert row_numbers(load(whole)) == range(2)
    if None not in change.values():  # a column without any text is not found
        with pytest.raises(ValueError, match="all 1 rows"):
            load(Dataset.from_list([rows[1]]), skip_empty=True)
        assert len(load(Source("s", [("line 8", rows[1])], first=7), skip_empty=True)) == 0


def test_the_log_of_left_out_rows(tmp_path, caplog):
    rows = [{"text": "" if number else "a", "label": "a"} for number in range(30)]
    assert load_texts(write(tmp_path, "a.jsonl", rows), skip_empty=True)["text"][:] == ["a"]
    assert "leaving out 29 of 30 rows" in caplog.text
    assert "line 11, …" in caplog.text
    assert "line 12" not in caplog.text
    load_texts(write(tmp_path, "ten.jsonl", rows[:11]), skip_empty=True)
    assert caplog.messages[-1].endswith("line 10, line 11.")
    rows = [{"text": text, "label": label} for text, label in (("a", "x"), ("", "x"), ("b", None), ("c", "y"))]
    kept = load_texts(write(tmp_path, "b.jsonl", rows), TextColumns(skip_unlabeled=True), skip_empty=True)
    assert (kept["text"][:], kept[INDEX][:]) == (["a", "c"], [0, 3])
    assert "leaving out 1 of 3 rows, which have no label." in caplog.text
    rows = [QQP, {**QQP, "question2": "dog"}]
    assert load_texts(write(tmp_path, "c.jsonl", rows), GLUE_TASKS["qqp"], skip_empty=True)[INDEX][:] == [1]
    rows = [{**ASKED, "question": ""}, {**ASKED, "context": " "}]
    assert len(load_answered(write(tmp_path, "d.jsonl", rows), require_questions=False, skip_empty=True)) == 1
    assert count_unanswerable(load_squad(Dataset.from_list([{**ASKED, "answers": NO_ANSWER}]))) == 1


@settings(deadline=None, max_examples=50)
@given(st.text(min_size=1).filter(str.strip), st.data())
def test_every_true_span_is_accepted(context, data):
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    row = question(context=context, answers={"text": [context[start:end]], "answer_start": [start]})
    source = Source("s", [("line 1", row)])
    if context[start:end].strip():
        assert load_squad(source).to_list() == [row]
    else:
        with pytest.raises(ValueError, match=r"line 1.*non-empty"):
            load_squad(source)
