"""The command `hf-localattn negation`: where texts come from, how cues are shown, and what is refused."""

import io
import json
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


def test_a_large_text_has_a_warning(monkeypatch, capsys):
    monkeypatch.setattr("hf_localattn.negation.command.LARGE", 3)
    assert main(["negation", "None."]) == 0
    assert "minutes" in capsys.readouterr().err
