"""The `hf-localattn` command as a user meets it."""

import json
import runpy
import sys

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_localattn import CoolForConditionalGeneration, __version__
from hf_localattn.cli import main
from hf_localattn.registry import FAMILIES
from tests.script_helpers import assert_only_one_line


def test_init_writes_a_folder_and_says_what_next(tmp_path, capsys):
    folder = tmp_path / "cool"
    assert (
        main(["init", "cool", "tiny", str(folder), "--config", "use_conv=false", "--config", "num_local_layers=1"])
        == 0
    )
    assert f"--model_name_or_path {folder} (scripts that do not import hf_localattn" in capsys.readouterr().out
    config = json.loads((folder / "config.json").read_text())
    assert (config["use_conv"], config["num_local_layers"]) == (False, 1)


def test_init_makes_a_generating_checkpoint_of_an_encoder_decoder(tmp_path):
    folder = tmp_path / "writer"
    assert main(["init", "cool", "tiny-bart", str(folder)]) == 0
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, CoolForConditionalGeneration)
    assert model.generate(**tokenizer("Mira", return_tensors="pt"), max_new_tokens=3).shape[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coool", "tiny"], "no family 'coool'"),
        (["cool", "tiny", "--config", "outlook_kernel=3"], "Did you mean 'outlook_kernel_size'?"),
        (["cool", "tiny", "--config", "mode=up"], "mode"),
        (["cool", "tiny-bart", "--config", "mode=l2g"], "mode"),
        (["cool", "./nowhere"], "not a folder with a `config.json`"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    family, backbone, *options = arguments
    assert_only_one_line(
        lambda: main(["init", family, backbone, str(tmp_path / "out"), *options]), message, tmp_path, capsys
    )


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["init", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "NAME=VALUE" in printed
    assert all(family in printed.replace("-\n" + " " * 18, "-") for family in FAMILIES)


def test_the_package_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hf-localattn", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("hf_localattn", run_name="__main__")
    assert capsys.readouterr().out == f"hf-localattn {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing command"),
        (["inti"], "Did you mean 'init'?"),
        (["init", "cool"], "Missing argument 'BACKBONE'. -- See `hf-localattn init --help`"),
        (["init", "cool", "tiny", "out", "more"], "unexpected extra argument"),
        (["init", "cool", "tiny", "out", "--confg", "a=1"], "--confg"),
        (["init", "cool", "tiny", "out", "--config"], "requires an argument"),
        (["init", "cool", "tiny", "out", "--seed", "few"], "Invalid value for '--seed'"),
        (["inspect", "M", "T", "--kind", "all"], "'all' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_command_is_one_line_and_exit_code_2(words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert message in error
    assert "\n" not in error
