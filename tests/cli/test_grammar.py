"""The words of a command: several values, spellings, former names, and what cannot be read."""

from pathlib import Path

import pytest
from typer.main import get_command

from hf_localattn.cli import app, main

COMMANDS = get_command(app).commands


def parse(name, *words):
    """Return what a command is called with."""
    return COMMANDS[name].make_context(name, list(words)).params


INIT = ("cool", "tiny", "out")


@pytest.mark.parametrize(
    "words",
    [
        (*INIT, "--config", "a=1", "b=2"),
        (*INIT, "--config", "a=1", "--config", "b=2"),
        (*INIT, "--config=a=1", "--config", "b=2", "--seed", "0"),
        ("--config", "a=1", "b=2", *INIT),
        ("cool", "--config", "a=1", "b=2", "--", "tiny", "out"),
    ],
)
def test_an_option_takes_several_values(words, capsys):
    found = parse("init", *words)
    assert found["config"] == ["a=1", "b=2"]
    assert (found["family"], found["backbone"], found["output_dir"]) == INIT
    assert not capsys.readouterr().err


def test_texts_may_stand_between_options():
    found = parse(
        "inspect", "M", "--config", "parser=x", "3 = three", "--compare", "O", "-", "-o", "x.json", "c", "--", "-d"
    )
    assert found["texts"] == ["3 = three", "-", "c", "-d"]
    assert (found["checkpoint"], found["config"], found["compare"]) == ("M", ["parser=x"], "O")
    assert found["output"] == Path("x.json")


def test_underscores_are_hyphens(capsys):
    assert parse("inspect", "M", "--text_column_names=a_b", "--trust_remote_code")["text_column_names"] == "a_b"
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("init", ["--set", "a=1", "--set", "b=2"], ["--config", "a=1", "b=2"]),
        ("inspect", ["--set", "a=1"], ["--config", "a=1"]),
        ("inspect", ["--limit", "3"], ["--max-samples", "3"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_former_names_are_read_with_one_warning(name, old, new, capsys):
    positional = INIT if name == "init" else ("M",)
    found = parse(name, *positional, *old)
    (former, *_), option = old[0].split("="), new[0]
    assert capsys.readouterr().err == f"warning: {former} is now {option}; the former name will be removed.\n"
    assert found == parse(name, *positional, *new)
    assert not capsys.readouterr().err
    assert main([name, "--help"]) == 0
    assert f"{former} " not in capsys.readouterr().out


def test_an_option_that_is_none_of_a_former_name_is_no_warning(capsys):
    assert parse("inspect", "M", "--output", "x.json")["output"] == Path("x.json")
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing command"),
        (["inti"], "Did you mean 'init'?"),
        (["init", "cool"], "Missing argument 'BACKBONE'. -- See `hf-localattn init --help`"),
        (["init", *INIT, "more"], "unexpected extra argument(s) (more)"),
        (["init", *INIT, "--confg", "a=1"], "No such option: --confg (Possible options: --config)"),
        (["init", *INIT, "--config"], "--config needs a value"),
        (["init", *INIT, "--revision", "--seed", "3"], "--revision needs a value"),
        (["init", *INIT, "--config", "a=1", "b"], "unexpected extra argument(s) (b)"),
        (["inspect", "M", "T", "--kind", "all"], "'all' is not one of 'auto', 'self', 'local'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_command_is_one_line_and_exit_code_2(words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert message in error
    assert "\n" not in error
