"""The `hf-localattn` command as a user meets it; Ctrl-C ends it and the scripts with one line."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys

import httpx
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.trainer_callback import DefaultFlowCallback

import hf_localattn.cli
import hf_localattn.studies.command
from hf_localattn import CoolForConditionalGeneration, __version__
from hf_localattn.cli import main
from hf_localattn.cli.network import look_for_hub
from hf_localattn.errors import exit_on_user_error, loading, printable
from hf_localattn.extras import EXTRAS
from hf_localattn.families import FAMILIES
from hf_localattn.names import SCRIPTS
from hf_localattn_command import main as interruptible_main
from tests.script_helpers import ROOT, assert_one_line_error, load_main


def test_init_writes_a_folder_and_says_what_next(tmp_path, capsys):
    folder, fields = tmp_path / "cool", ["--config", "use_conv=false", "--config", "num_local_layers=1"]
    assert main(["init", "cool", "tiny", str(folder), *fields]) == 0
    told = capsys.readouterr()
    assert f"--model_name_or_path {folder} (scripts that do not import hf_localattn" in told.out
    assert told.err == ""
    config = json.loads((folder / "config.json").read_text())
    assert (config["use_conv"], config["num_local_layers"]) == (False, 1)


def test_init_makes_a_generating_checkpoint_of_an_encoder_decoder(tmp_path):
    folder = tmp_path / "writer"
    assert main(["init", "cool", "tiny-bart", str(folder)]) == 0
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, CoolForConditionalGeneration)
    assert model.generate(**tokenizer("Mira", return_tensors="pt"), max_new_tokens=3).shape[0] == 1


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main([]) == 0
    assert "verify" in capsys.readouterr().out
    assert main(["init", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "NAME=VALUE" in printed
    assert all(family in printed.replace("-\n" + " " * 18, "-") for family in FAMILIES)


def test_help_after_a_script_is_that_of_the_script(monkeypatch, capsys):
    monkeypatch.setitem(EXTRAS, "train", ("not_installed",))
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", "swag", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: ")
    assert {"--max_seq_length", "--learning_rate", "--help-all"} <= {*text.split()}
    assert "--adam_beta1" not in text


def test_without_a_network_the_hub_is_asked_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(variable, "")
    look_for_hub(None, "tiny", str(tmp_path))
    assert not os.environ["HF_HUB_OFFLINE"]
    look_for_hub("tiny", "nobody/nothing")
    look_for_hub("nobody/nothing")
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert re.fullmatch(r"http://127.0.0.1:9 cannot be reached .*\n", capsys.readouterr().err)


ADAPTER_COMMANDS = ("inspect . text -o out/a.json", "init cool . out", "card .", "verify .", "export . out")


@pytest.mark.parametrize("words", ADAPTER_COMMANDS)
def test_an_adapter_without_its_base_is_refused(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "/nowhere"}')
    assert_one_line_error(lambda: main(words.split()), "without its base model", tmp_path / "out", capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("verfy x", "verify"),
        ("init cool", "'BACKBONE'. -- See `hf-localattn init --help`"),
        ("init cool tiny out --confg a=1", "--confg"),
        ("init cool tiny out --seed few", "'--seed'"),
        ("init coool tiny out", "'coool'"),
        ("init cool tiny out --config outlook_kernel=3", "outlook_kernel_size"),
        ("init cool tiny out --config mode=up", "mode"),
        ("init cool tiny-bart out --config mode=l2g", "mode"),
        ("init cool ./nowhere out", "config.json"),
        ("train squad", "glue, ner, qa, qg, swag"),
        (
            "train glue --backbone tiny --train_file sample:reviews.csv --label_column_name kind",
            "--label_column_name.*kind",
        ),
    ],
)
def test_an_invalid_command_is_one_line_and_exit_code_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(assert_one_line_error(lambda: main(words.split()), message, tmp_path, capsys)) == 1


@pytest.mark.parametrize("error", [ValueError, FileNotFoundError, ImportError, httpx.ConnectError])
def test_what_the_user_can_mend(error, tmp_path, capsys):
    def fail():
        with exit_on_user_error():
            raise error("no such\nthing")

    assert assert_one_line_error(fail, "error: no such thing", tmp_path, capsys) == ["error: no such thing"]


def test_terminals_get_no_commands_of_texts(capsys):
    """In errors, in the log of a run, and in what commands print."""
    text = "\x1b]0;title\x07 \x9b2J \x7f \u202edaer\u3164\u034f"
    shown = r"\x1b]0;title\x07 \x9b2J \x7f \u202edaer\u3164\u034f"
    with pytest.raises(SystemExit), exit_on_user_error():
        raise ValueError(text)
    assert capsys.readouterr().err == f"error: {shown}\n"
    assert printable(f"a\tb\n{text}é你") == f"a\tb\n{shown}é你"


def test_a_bug_keeps_its_traceback():
    with pytest.raises(KeyError), exit_on_user_error():
        raise KeyError("bug")


def test_what_cannot_be_loaded_is_named():
    with pytest.raises(OSError, match=r"Cannot load the backbone 'x/y'.*gone"), loading("backbone", "x/y"):
        raise OSError("gone")
    for error in (RuntimeError("odd\nvalue."), json.JSONDecodeError("odd value", "", 0), ZeroDivisionError()):
        message = r"Cannot load the model '/x': \w+: .*\. Save it again"
        with pytest.raises(ValueError, match=message), loading("model", "/x"):
            raise error


RESUMABLE = "Interrupted; run the same command again to resume.\n"


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize("words", ["init cool tiny x", "push x somebody/x", "train qa", "inspect x text", ""])
def test_an_interrupted_command(words, monkeypatch, capsys):
    monkeypatch.setattr(hf_localattn.cli, "main", interrupt)
    with pytest.raises(SystemExit, match=r"^130$"):
        interruptible_main(words.split())
    assert capsys.readouterr().err == ("Interrupted.\n" if words in ("inspect x text", "") else RESUMABLE)


@pytest.mark.parametrize("script", [f"run_{name}.py" for name in SCRIPTS])
def test_an_interrupted_script(script, monkeypatch, capsys):
    monkeypatch.setattr(hf_localattn.studies.command, "run_task", interrupt)
    monkeypatch.setattr(sys, "argv", [script])
    with pytest.raises(SystemExit, match=r"^130$"):
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert capsys.readouterr().err == RESUMABLE


SWALLOWED = """
import os, signal, time
from hf_localattn.errors import end_on_interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
with end_on_interrupt():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        pass  # as a library does while it is imported
"""


def test_no_library_can_swallow_an_interrupt():
    done = subprocess.run([sys.executable, "-c", SWALLOWED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, RESUMABLE)


SAVING = "--family sam --backbone tiny --local_config bilstm_hidden_size=8 --train_file sample:reviews.csv"
SAVING += " --do_train --max_steps 6 --save_steps 5 --save_total_limit 9 --per_device_train_batch_size 4"


def test_interrupted_training_saves_a_checkpoint_and_goes_on_from_it(tmp_path, monkeypatch):
    """The resumed run ends with the weights of one that was never interrupted."""

    def press(self, args, state, control, **kwargs):
        if state.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    run = load_main("run_glue")
    run([*SAVING.split(), "--output_dir", str(tmp_path / "whole")])
    given = [*SAVING.split(), "--output_dir", str(tmp_path / "cut")]
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
