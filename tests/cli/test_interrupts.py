"""Ctrl-C ends the command and the scripts with one line and the exit code of shells."""

import os
import runpy
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers.trainer_callback import DefaultFlowCallback

import hf_localattn.cli
import hf_localattn.studies.command
from hf_localattn.names import SAMPLES, SCRIPTS
from hf_localattn_command import main
from tests.script_helpers import ROOT, load_main

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
    with pytest.raises(SystemExit, match=r"^130$"):
        main(words)
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("script", [f"run_{name}.py" for name in SCRIPTS])
def test_scripts(script, monkeypatch, capsys):
    monkeypatch.setattr(hf_localattn.studies.command, "run_script", interrupt)
    with pytest.raises(SystemExit, match=r"^130$"):
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert capsys.readouterr().err == RESUMABLE


SWALLOWED = """
import os, signal, time
from hf_localattn_command import end_on_interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
with end_on_interrupt():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        pass  # as a library does while it is imported
"""


def test_no_library_can_swallow_it():
    done = subprocess.run([sys.executable, "-c", SWALLOWED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, RESUMABLE)


def test_training_saves_a_checkpoint_and_goes_on_from_it(tmp_path, monkeypatch):
    """The resumed run ends with the weights of one that was never interrupted."""

    def press(self, args, state, control, **kwargs):
        if state.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    run, rows = load_main("run_glue"), str(SAMPLES / "reviews.csv")
    given = ["--family", "sam", "--backbone", "tiny", "--train_file", rows, "--do_train", "--max_steps", "6"]
    given += ["--save_steps", "5", "--save_total_limit", "9", "--per_device_train_batch_size", "4"]
    run([*given, "--output_dir", str(tmp_path / "whole")])
    given += ["--output_dir", str(tmp_path / "cut")]
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a worker of pytest
    try:
        with monkeypatch.context() as patched:
            patched.setattr(DefaultFlowCallback, "on_step_begin", press)
            with pytest.raises(KeyboardInterrupt):
                run(given)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert [path.name for path in (tmp_path / "cut").glob("checkpoint-*")] == ["checkpoint-3"]
    run(given)
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(cut[name], value) for name, value in whole.items())
    assert not list(tmp_path.glob("*/checkpoint-*/optimizer*"))
