"""`hf-localattn train` is what the scripts at the root of the repository run."""

import inspect
import json

import pytest

import hf_localattn.tasks
from hf_localattn.cli import main
from hf_localattn.cli.train_command import SCRIPTS
from hf_localattn.studies.study import SCRIPTS as TASKS
from tests.script_helpers import ROOT, assert_only_one_line, load_main

QA = (
    *("--family", "cool", "--backbone", "tiny", "--do_train", "--do_eval", "--max_steps", "1"),
    *("--train_file", str(ROOT / "hf_localattn/resources/samples/reading/train.json")),
    *("--validation_file", str(ROOT / "hf_localattn/resources/samples/reading/train.json")),
    *(
        "--max_train_samples",
        "8",
        "--max_eval_samples",
        "8",
        "--max_seq_length",
        "64",
        "--doc_stride",
        "16",
        "--use_cpu",
        "true",
        "--report_to",
        "none",
    ),
)


def test_every_script_has_its_word():
    assert {name: getattr(hf_localattn.tasks, task) for name, task in SCRIPTS.items()} == TASKS
    for name in SCRIPTS:
        assert f'run_script("{name}", arguments)' in inspect.getsource(load_main(f"run_{name}"))


def test_it_trains_as_the_script_does(tmp_path):
    assert main(["train", "qa", *QA, "--output_dir", str(tmp_path / "command")]) == 0
    load_main("run_qa")([*QA, "--output_dir", str(tmp_path / "script")])
    losses = [json.loads((tmp_path / name / "all_results.json").read_text()) for name in ("command", "script")]
    assert losses[0]["eval_f1"] == losses[1]["eval_f1"]
    assert losses[0]["train_loss"] == losses[1]["train_loss"]


def test_help_after_a_script_is_that_of_the_script(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "swag", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: ")
    assert {"--max_seq_length", "--learning_rate", "--help-all"} <= {*text.split()}
    assert "--adam_beta1" not in text


def test_an_unknown_script_and_an_unknown_option(tmp_path, capsys):
    assert_only_one_line(lambda: main(["train", "squad"]), "Choose one of glue, ner, qa, qg, swag.", tmp_path, capsys)
    assert_only_one_line(
        lambda: main(["train", "qa", *QA, "--output_dir", str(tmp_path / "output"), "--familly", "cool"]),
        "Unknown option --familly. Did you mean --family?",
        tmp_path,
        capsys,
    )
