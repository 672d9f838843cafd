"""Searches through the scripts, on models that learn next to nothing in two steps."""

import json
import logging
import re
import shlex
import shutil
import sys
from functools import partial

import pytest

from hf_localattn.studies import search
from hf_localattn.studies.search_space import read_space
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main
from tests.test_run_folds import interrupted

optuna = pytest.importorskip("optuna", reason="the extra `search`")

TEXTS = ["the cat sat", "on the mat", "who sat?", "the red dog", "where cats sat", "the mat"]
SPACE = {
    "learning_rate": {"low": "1e-4", "high": "1e-1", "log": True},  # a text, as YAML 1.1 has it
    "warmup_steps": [0, 0.5],
    "lr_scheduler_type": ["linear", "constant"],
    "conv_kernel_sizes": [[3], [3, 5]],
    "outlook_dropout": {"low": 0, "high": 0.5, "step": 0.25},
}


@pytest.fixture(scope="module")
def main():
    return load_main("run_glue")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    tokenizer = word_pieces()
    tiny_bert(tokenizer).save_pretrained(folder / "backbone")
    tokenizer.save_pretrained(folder / "backbone")
    write_jsonl(folder / "classes.jsonl", [{"text": text, "label": text[:3]} for text in TEXTS])
    write_jsonl(folder / "words.jsonl", [{"tokens": text.split(), "ner_tags": ["O"] * 3} for text in TEXTS[:2]])
    return folder


def options(files, output_dir, space, *more, data="classes", validation=True):
    (files / "space.json").write_text(json.dumps(space))
    data = f"{files}/{data}.jsonl"
    return [
        *("--family", "cool", "--backbone", f"{files}/backbone", "--local_config", "num_local_layers=1"),
        *("--train_file", data, *(("--validation_file", data) if validation else ())),
        *("--search_space", f"{files}/space.json", "--max_seq_length", "16", "--max_steps", "2", "--use_cpu"),
        *("--disable_tqdm", "true", "--output_dir", str(output_dir), *more),
    ]


def results(output_dir):
    return json.loads((output_dir / "search.json").read_text())


def settings(output_dir):
    return [(trial["setting"], trial["metrics"]) for trial in results(output_dir)["trials"]]


@pytest.fixture(scope="module")
def whole(main, files, tmp_path_factory):
    """A search in one go: its folder and what it returns."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    (files / "whole.json").write_text(json.dumps(SPACE))
    return folder, main(options(files, folder, SPACE, "--search_trials", "3", "--metric_for_best_model", "loss"))


def test_a_search_leaves_its_trials_and_no_model(whole):
    folder, metrics = whole
    found = results(folder)
    assert [trial["trial"] for trial in found["trials"]] == [1, 2, 3]
    assert metrics["eval_loss"] == min(trial["score"] for trial in found["trials"])
    assert (found["metric"], found["direction"]) == ("loss", "minimize")
    assert len({trial["score"] for trial in found["trials"]}) == 3
    assert {path.name for path in folder.iterdir()} == {"search.json", "search.db", "run.json"}


def test_the_best_setting_given_again_has_its_score(main, files, whole, tmp_path):
    """Rates, epochs and fields arrive in the trial's model as they do in that of a command."""
    folder, metrics = whole
    given = options(files, tmp_path, SPACE, "--do_train", "--do_eval", *shlex.split(results(folder)["best"]))
    where = given.index("--search_space")
    again = main(given[:where] + given[where + 2 :])
    assert {name: again[name] for name in metrics} == pytest.approx(metrics, rel=1e-6)


def test_a_killed_search_goes_on_and_ends_as_if_it_had_not_been(main, files, whole, tmp_path, monkeypatch, caplog):
    given = options(files, tmp_path / "out", SPACE, "--search_trials", "2", "--metric_for_best_model", "loss")
    with monkeypatch.context() as patched:
        patched.setattr(search, "run_all", partial(interrupted, count=1))
        with pytest.raises(KeyboardInterrupt):
            main(given)
    assert len(results(tmp_path / "out")["trials"]) == 1
    with caplog.at_level(logging.INFO, "hf_localattn"):
        main(given)
        given[given.index("--search_trials") + 1] = "3"  # more of them are no other command
        main(given)
    assert settings(tmp_path / "out") == settings(whole[0])
    assert re.search(r"Trial 2 of 2: loss \d\.\d{4} with --learning_rate .*; the best is .* of trial \d", caplog.text)
    assert "| trial | loss | learning_rate | warmup_steps |" in caplog.text
    assert f"The best setting: {results(tmp_path / 'out')['best']}" in caplog.text


def test_all_combinations_are_tried_once_and_the_main_score_decides(main, files, tmp_path, capsys):
    space = {"learning_rate": [0.001, 0.01], "outlook_kernel_size": {"low": 1, "high": 3, "step": 2}}
    given = options(files, tmp_path / "out", space, "--early_stopping_patience", "1", "--num_train_epochs", "2")
    metrics = main(given)
    found = results(tmp_path / "out")
    tried = {tuple(trial["setting"].values()) for trial in found["trials"]}
    assert tried == {(rate, size) for rate in (0.001, 0.01) for size in (1, 3)}
    assert len(found["trials"]) == 4
    assert (found["metric"], found["direction"]) == ("accuracy", "maximize")
    assert metrics["eval_accuracy"] == max(trial["score"] for trial in found["trials"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"search.json", "search.db", "run.json"}
    with pytest.raises(SystemExit):
        main(options(files, tmp_path / "out", {"learning_rate": [0.1]}))
    assert "holds another run: its " in capsys.readouterr().err


@pytest.mark.slow(reason="the scripts share their searches as they share folds")
def test_other_scripts_search_as_well(files, tmp_path):
    space = {"local_learning_rate": [1e-3, 1e-2]}
    load_main("run_ner")(options(files, tmp_path / "out", space, data="words"))
    assert results(tmp_path / "out")["metric"] == "accuracy"
    assert len(results(tmp_path / "out")["trials"]) == 2


SAM = ("--family", "sam-roberta", "--local_config", "bilstm_hidden_size=4", "num_bilstm_layers=1", "fam_reduction=4")


FAILS = "cosine_with_min_lr"
"""A schedule that is refused when training begins: the minimum is not given."""


def test_a_trial_that_fails_is_noted_and_the_others_go_on(main, files, tmp_path, caplog, monkeypatch):
    """Without token attention its length is idle."""
    space = {"lr_scheduler_type": ["linear", FAILS, "constant"], "pooling": ["none"], "tam_max_length": [8, 24]}
    given = options(files, tmp_path / "out", space, *SAM)
    with caplog.at_level(logging.INFO, "hf_localattn"):
        main(given)
    assert (
        "Leaving out 3 of 6 combinations, which differ from another one only in fields without effect" in caplog.text
    )
    found = results(tmp_path / "out")
    assert [(trial["trial"], trial["setting"]["lr_scheduler_type"]) for trial in found["trials"]] == [
        (1, "linear"),
        (3, "constant"),
    ]
    (failed,) = found["failed"]
    assert (failed["trial"], failed["setting"]["lr_scheduler_type"]) == (2, FAILS)
    assert "min_lr" in failed["error"]
    said = re.findall(rf"Trial 2 failed with --lr_scheduler_type {FAILS} .*: .*", caplog.text)
    assert len(said) == 2
    assert said[0].endswith(f"{failed['error']} It is not tried again.")
    assert said[1].endswith(failed["error"])
    monkeypatch.setattr("hf_localattn.studies.processes.run_script", None)
    main(given)
    assert results(tmp_path / "out") == found


def test_trials_that_all_fail(main, files, tmp_path):
    with pytest.raises(
        ValueError, match=rf"no trial has a score, because all 1 failed\. Trial 1 failed with .*{FAILS}.*: "
    ):
        main(options(files, tmp_path / "out", {"lr_scheduler_type": [FAILS]}, *SAM))
    assert results(tmp_path / "out")["best"] is None


def test_a_setting_that_shortens_texts_shortens_those_of_its_trial(main, files, tmp_path):
    """Each trial reads the texts by itself, as the command does that is given its options."""
    metrics = main(options(files, tmp_path / "out", {"tam_max_length": [4]}, *SAM))
    assert metrics["eval_accuracy"] == results(tmp_path / "out")["trials"][0]["score"]


def test_a_trial_that_was_killed_before_it_had_a_setting_counts_for_nothing(main, files, whole, tmp_path):
    folder = shutil.copytree(whole[0], tmp_path / "out")
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{folder}/search.db")
    study.ask()
    given = options(files, folder, SPACE, "--search_trials", "3", "--metric_for_best_model", "loss")
    assert main(given) == whole[1]
    assert results(folder) == results(whole[0])
    assert not study.get_trials(states=(optuna.trial.TrialState.RUNNING, optuna.trial.TrialState.WAITING))


def test_null_is_a_value_also_after_the_command_line_has_been_read(tmp_path):
    """transformers' parser takes the None out of the types of the arguments."""
    parse_arguments((TrainingArguments,), ["--output_dir", "x"])
    (tmp_path / "space.yaml").write_text("lookahead_steps: [null, 5]\n")
    model_args = ModelArguments(family="cool", backbone="tiny")
    assert read_space(str(tmp_path / "space.yaml"), model_args)["lookahead_steps"].choices == ("null", "5")


def test_a_loss_that_is_no_number_is_the_worst(main, files, tmp_path, monkeypatch):
    losses = iter([float("nan"), 0.5])
    monkeypatch.setattr(search, "run_all", lambda runs, *_, **__: ((run, {"eval_loss": next(losses)}) for run in runs))
    given = options(files, tmp_path / "out", {"learning_rate": [0.1, 0.2]}, "--metric_for_best_model", "loss")
    assert main(given) == {"eval_loss": 0.5}
    assert [trial["score"] for trial in results(tmp_path / "out")["trials"]] == [None, 0.5]


@pytest.mark.parametrize(
    ("space", "more", "message"),
    [
        ({"learnin_rate": [1e-3]}, (), "learnin_rate: no such argument or field. Did you mean 'learning_rate'?"),
        ({"use_con": [True]}, (), "use_con: no such argument or field. Did you mean 'use_conv'?"),
        ({"seed": [1, 2]}, (), "seed: this is the same for all trials"),
        ({"learning_rate": {"low": 1, "high": 0.1}}, (), "learning_rate: "),
        ({"learning_rate": {"low": 0, "high": 1, "log": True}}, (), "learning_rate: "),
        ({"learning_rate": {"low": 1e-5, "hihg": 1}}, (), "learning_rate: a range"),
        ({"learning_rate": {"low": 1e-5}}, (), "learning_rate: a range"),
        ({"learning_rate": {"low": 1e-5, "high": 1, "by": 2}}, (), "learning_rate: a range"),
        ({"learning_rate": {"low": 1, "high": 2, "log": True, "step": 1}}, (), "learning_rate: "),
        ({"learning_rate": ["fast"]}, (), "learning_rate: 'fast'"),
        ({"learning_rate": []}, (), "learning_rate: "),
        ({"learning_rate": [0.1, "1e-1"]}, (), "learning_rate: the list contains a value twice"),
        ({"per_device_train_batch_size": [2.5]}, (), "per_device_train_batch_size: 2.5"),
        ({"use_conv": {"low": 0, "high": 1}}, (), "use_conv: a range has numbers"),
        ({"lr_scheduler_type": ["linear", "bumpy"]}, (), "with lr_scheduler_type=bumpy: bumpy"),
        ({"outlook_kernel_size": {"low": 3, "high": 4}}, (), "with outlook_kernel_size=4: `outlook_kernel_size`"),
        (
            {"fam_threshold": [1, 0.1], "learn_fam_threshold": [False, True]},
            SAM,
            "with fam_threshold=1.0, learn_fam_threshold=true: `fam_threshold`",  # each by itself can be
        ),
        (
            {"local_learning_rate": [1e-3], "freeze_backbone": [False, True]},
            SAM,
            "with local_learning_rate=0.001, freeze_backbone=true: the backbone is frozen",
        ),
        ({"lookahead_alpha": [0.5]}, (), "--lookahead_alpha needs --lookahead_steps"),
        ({"learning_rate": {"low": 0, "high": 1}}, (), "give the number of trials with --search_trials"),
        ({}, (), "expected names with values to try"),
        ({"learning_rate": [1]}, ("--num_folds", "2"), "--num_folds cannot be used with --search_space"),
        ({"learning_rate": [1]}, ("--push_to_hub",), "--push_to_hub cannot be used with --search_space"),
        ({"learning_rate": [1]}, ("--metric_for_best_model", "bleu"), "--metric_for_best_model must be one of loss"),
        ({"learning_rate": [1]}, ("--search_trials", "0"), "--search_trials must be at least 1; got 0"),
        ({"learning_rate": [1]}, ("--search_space", "space.txt"), "space.txt: must be a .yaml or .json file"),
        ({"learning_rate": [1]}, ("--search_space", "no.yaml"), "--search_space no.yaml: no such file"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, space, more, message):
    assert_one_line_error(main, options(files, tmp_path / "out", space, *more), message, tmp_path / "out", capsys)


def test_there_has_to_be_something_to_evaluate_on(main, files, tmp_path, capsys):
    given = options(files, tmp_path / "out", {"learning_rate": [1]}, validation=False)
    message = "--search_space needs validation data: give --validation_file"
    assert_one_line_error(main, given, message, tmp_path / "out", capsys)


def test_without_optuna_nothing_is_begun(main, files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    given = options(files, tmp_path / "out", {"learning_rate": [1]})
    message = "--search_space needs optuna: run `pip install 'hf_localattn[search]'`"
    assert_one_line_error(main, given, message, tmp_path / "out", capsys)
