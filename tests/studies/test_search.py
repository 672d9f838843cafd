"""Searches through the scripts, on models that learn next to nothing in two steps."""

import json
import logging
import re
import shlex
import sys

import pytest

from hf_localattn.studies import processes
from hf_localattn.studies.search_space import read_space
from hf_localattn.training.arguments import ModelArguments
from tests.script_helpers import assert_one_line_error
from tests.studies.test_folds import main, without

optuna = pytest.importorskip("optuna", reason="the extra `search`")

SPACE = {
    "learning_rate": {"low": "1e-4", "high": "1e-1", "log": True},  # a text, as YAML 1.1 has it
    "warmup_steps": [0, 0.5],
    "lr_scheduler_type": ["linear", "constant"],
    "conv_kernel_sizes": [[3], [3, 5]],
    "outlook_dropout": {"low": 0, "high": 0.5, "step": 0.25},
}


COMMON = "--family cool --backbone tiny --local_config num_local_layers=1 conv_filters=4 --max_seq_length 16"
COMMON += " --train_file sample:reviews.csv --validation_file sample:reviews.csv --max_steps 2 --save_steps 7"
COMMON += " --use_cpu --disable_tqdm true"


def options(output_dir, space, *more):
    file = output_dir.with_name("space.json")
    file.write_text(json.dumps(space))
    return [*COMMON.split(), "--search_space", str(file), "--output_dir", str(output_dir), *more]


def found_in(output_dir):
    return json.loads((output_dir / "search.json").read_text())


DRAWN = ("--search_trials", "3", "--metric_for_best_model", "loss")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search in one go: its folder and what it returns."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    return folder, main(options(folder, SPACE, *DRAWN))


def test_a_search_leaves_its_trials_and_its_best_setting_has_its_score_again(whole, tmp_path):
    """Rates, epochs and fields arrive in the trial's model as they do in that of a command."""
    folder, metrics = whole
    found = found_in(folder)
    assert [trial["trial"] for trial in found["trials"]] == [1, 2, 3]
    assert metrics["eval_loss"] == min(trial["score"] for trial in found["trials"])
    assert (found["metric"], found["direction"]) == ("loss", "minimize")
    assert len({trial["score"] for trial in found["trials"]}) == 3
    assert {path.name for path in folder.iterdir()} == {"search.json", "search.db", "run.json"}
    given = options(tmp_path, SPACE, "--do_train", "--do_eval", *shlex.split(found["best"]))
    again = main(without("--search_space", given))
    assert {name: again[name] for name in metrics} == pytest.approx(metrics, rel=1e-6)


def test_a_search_with_more_trials_goes_on_and_ends_as_if_it_had_had_them(whole, tmp_path, caplog):
    """Also if a trial has begun and not ended; tests/faults kills one."""
    folder, given = tmp_path / "out", options(tmp_path / "out", SPACE, *DRAWN)
    with caplog.at_level(logging.INFO, "hf_localattn"):
        main(["2" if word == "3" else word for word in given])
        study = optuna.load_study(study_name="search", storage=f"sqlite:///{folder}/search.db")
        study.ask()
        assert main(given) == whole[1]
    own, others = (
        [(one["setting"], one["metrics"]) for one in found_in(each)["trials"]] for each in (folder, whole[0])
    )
    assert own == others
    assert re.search(r"Trial 2 of 2: loss \d\.\d{4} with --learning_rate .*; the best is .* of trial \d", caplog.text)
    assert "| trial | loss | learning_rate | warmup_steps |" in caplog.text
    assert f"The best setting: {found_in(folder)['best']}" in caplog.text
    assert not study.get_trials(states=(optuna.trial.TrialState.RUNNING, optuna.trial.TrialState.WAITING))


def test_all_combinations_are_tried_once_and_the_main_score_decides(tmp_path, capsys):
    space = {"learning_rate": [0.001, 0.01], "outlook_kernel_size": {"low": 1, "high": 3, "step": 2}}
    given = options(tmp_path / "out", space, "--early_stopping_patience", "1", "--num_train_epochs", "2")
    given = without("--save_steps", given)  # which early stopping refuses: it saves after each epoch
    metrics, found = main(given), found_in(tmp_path / "out")
    tried = [tuple(trial["setting"].values()) for trial in found["trials"]]
    assert sorted(tried) == [(rate, size) for rate in (0.001, 0.01) for size in (1, 3)]
    assert (found["metric"], found["direction"]) == ("accuracy", "maximize")
    assert metrics["eval_accuracy"] == max(trial["score"] for trial in found["trials"])
    with pytest.raises(SystemExit):
        main(options(tmp_path / "out", {"learning_rate": [0.1]}))
    assert "holds another run: its " in capsys.readouterr().err


def test_epochs_that_have_no_effect_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(options(tmp_path / "out", {"num_train_epochs": [1, 2]}))
    assert "--max_steps replaces num_train_epochs" in capsys.readouterr().err


SAM = ("--family", "sam-roberta", "--local_config", "bilstm_hidden_size=4", "num_bilstm_layers=1", "fam_reduction=4")

FAILS = "cosine_with_min_lr"
"""A schedule that is refused when training begins: the minimum is not given."""


def test_a_trial_that_fails_is_noted_and_the_others_go_on(tmp_path, caplog, monkeypatch):
    """Without token attention its length is idle."""
    space = {"lr_scheduler_type": ["linear", FAILS, "constant"], "pooling": ["none"], "tam_max_length": [8, 24]}
    given = options(tmp_path / "out", space, *SAM)
    with caplog.at_level(logging.INFO, "hf_localattn"):
        main(given)
    assert "Leaving out 3 of 6 combinations" in caplog.text
    found = found_in(tmp_path / "out")
    names = [(trial["trial"], trial["setting"]["lr_scheduler_type"]) for trial in found["trials"] + found["failed"]]
    assert names == [(1, "linear"), (3, "constant"), (2, FAILS)]
    assert "min_lr" in found["failed"][0]["error"]
    assert len(re.findall(rf"Trial 2 failed with --lr_scheduler_type {FAILS} .*: .*min_lr", caplog.text)) == 2
    monkeypatch.setattr("hf_localattn.studies.processes.run_in_process", None)
    main(given)
    assert found_in(tmp_path / "out") == found


def test_searches_in_folders_with_unusual_names_have_trials_of_their_own(tmp_path, monkeypatch):
    """Where a database is named by a URL, `?` begins its options."""
    monkeypatch.setattr(processes, "run_in_process", lambda *_: {"eval_loss": 0.5})
    for name, rate in (("out?a#1 %20", 0.1), ("out?b", 0.2)):
        main(options(tmp_path / name, {"learning_rate": [rate]}, "--metric_for_best_model", "loss"))
        assert [trial["setting"] for trial in found_in(tmp_path / name)["trials"]] == [{"learning_rate": rate}]
        assert (tmp_path / name / "search.db").is_file()


def test_trials_that_all_fail(tmp_path):
    with pytest.raises(ValueError, match=rf"no trial has a score.* Trial 1 failed with .*{FAILS}.*: "):
        main(options(tmp_path / "out", {"lr_scheduler_type": [FAILS]}, *SAM))
    assert found_in(tmp_path / "out")["best"] is None


def test_null_is_a_value(tmp_path):
    (tmp_path / "space.yaml").write_text("lookahead_steps: [null, 5]\n")
    model_args = ModelArguments(family="cool", backbone="tiny")
    assert read_space(str(tmp_path / "space.yaml"), model_args)["lookahead_steps"].choices == ("null", "5")


def test_a_loss_that_is_no_number_is_the_worst(tmp_path, monkeypatch):
    losses = iter([float("nan"), 0.5])
    monkeypatch.setattr(processes, "run_in_process", lambda *_: {"eval_loss": next(losses)})
    given = options(tmp_path / "out", {"learning_rate": [0.1, 0.2]}, "--metric_for_best_model", "loss")
    assert main(given) == {"eval_loss": 0.5}
    assert [trial["score"] for trial in found_in(tmp_path / "out")["trials"]] == [None, 0.5]


RATE = {"learning_rate": [1]}
KERNELS = {"outlook_kernel_size": {"low": 3, "high": 4}}
BATCH = "per_device_train_batch_size"
THRESHOLDS = {"fam_threshold": [1, 0.1], "learn_fam_threshold": [False, True]}
REFUSED = {
    "unknown-argument": ({"learnin_rate": [1e-3]}, (), "learnin_rate: .*learning_rate"),
    "unknown-field": ({"use_con": [True]}, (), "use_con: .*--family"),
    "fixed": ({"seed": [1, 2]}, (), "seed: "),
    "high-below-low": ({"learning_rate": {"low": 1, "high": 0.1}}, (), "learning_rate: "),
    "unknown-key": ({"learning_rate": {"low": 1e-5, "high": 1, "by": 2}}, (), "learning_rate: .*range"),
    "range-of-booleans": ({"use_conv": {"low": 0, "high": 1}}, (), "use_conv: .*range"),
    "text-for-number": ({"learning_rate": ["fast"]}, (), "learning_rate: 'fast'"),
    "fraction-for-whole": ({BATCH: [2.5]}, (), f"{BATCH}: 2.5"),
    "empty": ({}, (), "names"),
    "value-of-argument": ({"lr_scheduler_type": ["linear", "bumpy"]}, (), "with lr_scheduler_type=bumpy: "),
    "value-of-field": (KERNELS, (), "with outlook_kernel_size=4: "),
    "drawn-value": (KERNELS, ("--search_trials", "1"), "with outlook_kernel_size=4: "),
    "values-together": (THRESHOLDS, SAM, "with fam_threshold=1.0, learn_fam_threshold=true: `fam_threshold`"),
    "alpha-alone": ({"lookahead_alpha": [0.5]}, (), "--lookahead_steps"),
    "infinite": ({"learning_rate": {"low": 0, "high": 1}}, (), "--search_trials"),
    "folds": (RATE, ("--num_folds", "2"), "--search_space .*--fold"),
    "push": (RATE, ("--push_to_hub",), "--search_space .* --push_to_hub"),
    "metric": (RATE, ("--metric_for_best_model", "bleu"), "--metric_for_best_model .* loss"),
    "no-trials": (RATE, ("--search_trials", "0"), "--search_trials .* 0"),
    "no-file": (RATE, ("--search_space", "no.yaml"), "no.yaml"),
    "nothing-to-evaluate-on": (RATE, (), "--search_space .* --validation_file"),
    "no-optuna": (RATE, (), r"--search_space needs optuna: .*hf_localattn\[search\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_user_can_mend_is_one_line(tmp_path, capsys, monkeypatch, case):
    space, more, message = REFUSED[case]
    given = options(tmp_path / "out", space, *more)
    given = without("--validation_file", given) if case == "nothing-to-evaluate-on" else given
    if case == "no-optuna":
        monkeypatch.setitem(sys.modules, "optuna", None)
    assert_one_line_error(lambda: main(given), message, tmp_path / "out", capsys)
