"""Ctrl-C ends the command and the scripts with one line and the exit code of shells."""

import runpy

import pytest

import hf_localattn.cli
import hf_localattn.studies.command
from hf_localattn_command import main
from tests.script_helpers import ROOT

RESUMABLE = "Interrupted; run the same command again to resume.\n"


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["init", "cool", "tiny", "x"], RESUMABLE),
        (["push", "x", "somebody/x"], RESUMABLE),
        (["train", "qa"], RESUMABLE),
        (["inspect", "x", "text"], "Interrupted.\n"),
        ([], "Interrupted.\n"),
    ],
)
def test_the_command(words, line, monkeypatch, capsys):
    monkeypatch.setattr(hf_localattn.cli, "main", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 130
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("script", sorted(path.name for path in ROOT.glob("run_*.py")))
def test_scripts(script, monkeypatch, capsys):
    monkeypatch.setattr(hf_localattn.studies.command, "run_script", interrupt)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert ended.value.code == 130
    assert capsys.readouterr().err == RESUMABLE
