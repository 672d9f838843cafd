"""The command `hf-localattn negation`: where texts come from, how cues are shown, and what is refused."""

import csv
import io
import json
import unicodedata
from types import SimpleNamespace

import pytest

from hf_localattn.cli import main
from hf_localattn.models.negation_model import ModelLabeler
from hf_localattn.negation import texts
from hf_localattn.negation.command import show
from tests.models.test_pipeline_negation import MODEL, TEXT, TOKENIZER, finder_of
from tests.script_helpers import assert_one_line_error


@pytest.fixture(autouse=True)
def own_model(monkeypatch):
    """The package's own model has known predictions."""
    load = texts.load_labeler
    rules = ModelLabeler(MODEL, TOKENIZER)
    monkeypatch.setattr(texts, "load_labeler", lambda name, **rest: rules if name is None else load(name, **rest))


@pytest.fixture
def standard_input(monkeypatch):
    """A function that sets the bytes of standard input."""
    return lambda content: monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))


SHOWN = {
    TEXT: [
        "He [neither] {spoke} [nor] {moved.}",
        "That is [im]possible{!}",
        "speculation: She [may] {not know, I say.}",
        "She may [not] {know, I say.}",
    ],
    "He is\n\tcareless .": ["He is {care}[less] {.}"],
    "Yes": ["No cue was found."],
}


@pytest.mark.parametrize("text", SHOWN)
def test_cues_and_scopes_are_marked(text, capsys):
    assert main(["negation", text]) == 0
    assert capsys.readouterr().out.splitlines() == SHOWN[text]


def test_a_terminal_has_colors():
    text = "She may not."
    (found,) = (one for one in finder_of()(text) if one["kind"] == "negation")
    assert show(text, found, colored=True) == "She may \x1b[31m\x1b[1mnot\x1b[0m\x1b[33m.\x1b[0m"


def test_texts_files_and_standard_input(tmp_path, capsys, standard_input):
    file = tmp_path / "a note.txt"
    file.write_text("\ufeffHe may\ngo. None", encoding="utf-8")
    standard_input("No \u00e9t\u00e9.".encode())
    assert main(["negation", "--json", "--split-lines", "--convention", "notes", "unhappy no.", str(file), "-"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == ["unhappy no.", "He may\ngo. None", "No \u00e9t\u00e9."]
    cues = [[cue["cue"][0]["text"] for cue in line["negations"]] for line in lines]
    assert cues == [["no"], ["may", "None"], ["No"]]  # by the convention, without an affix
    assert lines[1]["negations"][0]["sentence"] == {"start": 0, "end": 6}


REFUSED = {
    "an empty text": (["  "], "empty"),
    "no input": ([], "TEXT"),
    "a missing file": (["notes/7.txt"], "notes/7.txt"),
    "an unknown convention": (["No.", "--convention", "note"], "note"),
    "a folder": (["."], "folder"),
    "a missing model": (["No.", "--model", "./none"], "none"),
    "a mistyped model": (["No.", "--model", "my-negatoin"], "my-negatoin"),
    "missing terms": (["No.", "--terms", "my-terms.yaml"], "my-terms.yaml: no such file"),
    "a column of a text": (["No.", "--text_column", "note"], "text_column"),
    "lines of a text": (["No.", "--lines"], "lines"),
    "a text like an option": (["-fever -chills"], "`--`"),
    "a text like a long option": (["--fever"], "`--`"),
    "an option without its value": (["No.", "--model"], "requires an argument(?!.*`--`)"),
    "a text that is quoted": (["No. No.", "--max_characters", "3"], "text 'No. No.'.*max_characters"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_text_is_refused(words, message, tmp_path, capsys):
    assert_one_line_error(lambda: main(["negation", *words]), message, tmp_path, capsys)


CONTENTS = {"empty": (b" \n", "empty"), "picture": (b"\x89PNG\r\n", "byte 0"), "zeros": (b"a\0\0", "character 1")}


@pytest.mark.parametrize(("content", "message"), CONTENTS.values(), ids=CONTENTS)
def test_files_and_standard_input_without_text_are_refused(content, message, tmp_path, capsys, standard_input):
    file = tmp_path / "file.bin"
    file.write_bytes(content)
    standard_input(content)
    for name in (str(file), "-"):
        assert_one_line_error(lambda name=name: main(["negation", name]), message, tmp_path / "none", capsys)


def test_control_characters_of_a_text_do_not_reach_a_terminal(capsys):
    assert main(["negation", "not \x1b[31mred\x1b]0;x\x07\x9b\u202e"]) == 0
    assert main(["negation", "--json", "not \x9b\u202e"]) == 0
    shown = capsys.readouterr().out
    assert not {character for character in shown if unicodedata.category(character) in ("Cc", "Cf")} - {"\n"}
    assert "\\u001b[31m" in shown


PLACES = ["start", "end", "scope_start", "scope_end"]
ROWS = {
    "rows.jsonl": '{"id": 7, "note": "She may go.", "age": null}\n\n{"id": 8, "note": "", "age": 3}\n',
    "rows.csv": '\ufeffid,note,age\n7,"She may\ngo.",\n8,,3\n',
    "rows.tsv": "id\tnote\tage\n7\tShe may go.\t\n8\t\t3\n",
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_keep_their_columns(name, tmp_path, capsys):
    (tmp_path / name).write_text(ROWS[name], encoding="utf-8")
    assert main(["negation", str(tmp_path / name), "--text_column", "note"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(str(row["id"]), str(row["age"] or ""), len(row["negations"])) for row in rows] == [
        ("7", "", 1),
        ("8", "3", 0),
    ]
    assert main(["negation", str(tmp_path / name), "--text_column", "note", "--table"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["id"], row["cue"], row["scope"]) for row in table] == [("7", "may", "go."), ("8", "", "")]
    assert list(table[0]) == ["id", "age", "cue", "kind", "type", "score", "scope", *PLACES]
    assert [table[0][name] for name in PLACES] == ["4", "7", "8", "11"]


NO_ROWS = [
    "Fever,no\ncough,yes",
    "Heart\tnormal\nLungs\tclear",
    "Fever,\nno cough",
    "id,text",
    'She,too\nsaid "no"',
    "Fever,chills\nno cough, no rash",
    "Fever,chills\nnausea,vomiting,rash",
]


@pytest.mark.parametrize("content", NO_ROWS)
def test_notes_are_no_csv(content, tmp_path, capsys, standard_input):
    standard_input(content.encode())
    assert main(["negation", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == content


def test_lines_of_a_file_are_texts(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("He may go\n\nNever")
    assert main(["negation", str(tmp_path / "notes.txt"), "--lines", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["line"], row["text"], len(row["negations"])) for row in rows] == [
        (1, "He may go", 1),
        (3, "Never", 1),
    ]


def test_terms_are_read_from_a_file(tmp_path, capsys):
    (tmp_path / "terms.yaml").write_text("negation: [rid of]\nignore: [may not]\n")
    assert main(["negation", "rid of it may not go", "--terms", str(tmp_path / "terms.yaml")]) == 0
    assert capsys.readouterr().out == "[rid] [of] {it may not go}\n"


WRONG = {
    "no column": ("a.csv", "id,text2\n1,no", "text2"),
    "cells": ("a.csv", "id,text\n1,no,rash", "line 2"),
    "header": ("a.csv", "text,text\n1,no", "two columns"),
    "quotes": ("a.csv", 'text\n"no', "line 2"),
    "no rows": ("a.csv", "text\n", "no rows"),
    "a number": ("a.jsonl", '{"text": "no"}\n{"text": 3}', "line 2"),
    "a missing note": ("a.jsonl", '{"text": null}', "line 1"),
    "a number alone": ("a.jsonl", '{"text": "no"}\n1', "line 2"),
    "a list": ("a.jsonl", '[{"text": "no"}]', "line 1.*object a line"),
    "a list over lines": ("a.jsonl", '[\n{"text": "no"}\n]', "line 1.*object a line"),
    "an object over lines": ("a.jsonl", '{\n"text": "no"\n}', "line 1.*object a line"),
    "semicolons": ("a.csv", "id;text\n1;no", "';'.*commas"),
    "tabs": ("a.csv", "id\ttext\n1\tno", "commas"),
    "commas": ("a.tsv", "id,text\n1,no", "','.*commas"),
    "a long cell": ("a.csv", "text\n" + "no " * 50_000, "limit.*jsonl"),
    "csv": ("a.txt", "id,note\n1,No fever, no cough\n", "CSV"),
    "csv between tabs": ("a.txt", "id\ttext\n1\tNo fever", "CSV"),
    "csv of pandas": ("a.txt", ",id,text\n0,1,No fever\n", "CSV"),
    "csv with blanks": ("a.txt", "\nnote-id, text,\n1,No fever,\n", "CSV"),
    "csv with an open quote": ("a.txt", 'id,note\n1,"No fever\n', "CSV"),
    "csv with a long cell": ("a.txt", "id,note\n1," + "no " * 50_000, "CSV"),
    "json": ("a.json", '[{"text": "no"}]', "jsonl"),
    "json lines": ("a.txt", '{"text": "no"}\n{"text": "no"}', "jsonl"),
    "json over lines": ("a.txt", '{\n"text": "no"\n}\n{\n"text": "no"\n}', "jsonl"),
    "json that is cut": ("a.txt", '[{"text": "no"}, {"te', "jsonl"),
    "texts in json": ("a.txt", '["no", "no"]', "jsonl"),
    "results": ("a.jsonl", '{"text": "no", "negations": []}', "negations"),
    "terms": ("a.txt", "no", "terms"),
}


@pytest.mark.parametrize(("name", "content", "message"), WRONG.values(), ids=WRONG)
def test_files_that_would_be_misread_are_refused(name, content, message, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    terms = ["--terms", str(tmp_path / name)] if message == "terms" else []
    words = ["negation", str(tmp_path / name), *terms]
    assert_one_line_error(lambda: main(words), message, tmp_path / "none", capsys)


def test_a_table_has_no_two_columns_of_one_name(tmp_path, capsys):
    (tmp_path / "notes.csv").write_text("score,text\n3,No fever.\n")
    with pytest.raises(SystemExit):
        main(["negation", str(tmp_path / "notes.csv"), "--table"])
    assert "notes.csv, line 2: has a column 'score' already" in capsys.readouterr().err


def test_rows_of_a_table_have_the_same_columns(tmp_path, capsys):
    (tmp_path / "notes.jsonl").write_text('{"id": 1, "text": "No."}\n{"age": 3, "text": "No."}\n')
    with pytest.raises(SystemExit):
        main(["negation", str(tmp_path / "notes.jsonl"), "--table"])
    written = capsys.readouterr()
    assert not written.out
    assert "line 2: has the columns ['age'], not ['id']" in written.err
