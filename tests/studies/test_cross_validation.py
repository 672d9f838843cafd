"""The order of things around folds, with runs that train nothing; tests/test_run_folds.py has real ones."""

import gc
import json
import logging
import math
import re
import sys
import weakref

import pytest

from hf_localattn.files import UNFINISHED, atomic_write
from hf_localattn.studies import executors
from hf_localattn.studies.command import prepare_command
from hf_localattn.studies.cross_validation import CrossValidation, summary_of
from hf_localattn.studies.results import settings_of
from hf_localattn.tasks import DataArguments, TextClassification
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.run_record import scores_of
from tests.qa_helpers import write_jsonl
from tests.studies.test_executors import WORKER

PATCHES = pytest.MonkeyPatch()


class Model:
    """What has to be freed."""


class Runs:
    """Stands for a task: `prepare` makes runs that score 0.1, 0.2 and so on, and write what a run writes."""

    def __init__(self, failing=None):
        self.failing, self.prepared, self.seeds, self.models = failing, [], [], []

    def prepare(self, model_args, data_args, training_args):
        model = Model()
        gc.disable()  # freed because it is asked for, not by chance
        assert not any(other() for other in self.models), "the model of a finished fold is kept"
        self.models.append(weakref.ref(model))
        self.seeds.append(training_args.seed)
        self.prepared.append((model_args, data_args, training_args))
        training_args.seed, data_args.max_seq_length = 0, 1  # as real ones do: this is no longer the caller's

        class Run:
            def __init__(self):
                self.cycle, self.model = self, model

            def execute(run):
                number = data_args.held_out.number
                if number == self.failing:
                    raise RuntimeError("killed")
                write_all_results(training_args, {"train_loss": 1.0, "eval_samples": 4})
                return {"eval_f1": number / 10, "predict_f1": 0.5, "predict_runtime": 3.0, "eval_signature": "x"}

        return Run()


def prepare_run(runs, *arguments):
    """Prepare a command whose runs are these."""

    def prepare(task, *own):
        return runs.prepare(*own)

    PATCHES.setattr("hf_localattn.studies.command.prepare_run", prepare)
    PATCHES.setattr("hf_localattn.studies.trial.prepare_run", prepare)
    return prepare_command(TextClassification, *arguments)


def write_all_results(training_args, metrics):
    atomic_write(f"{training_args.output_dir}/all_results.json", json.dumps(metrics))


@pytest.fixture(autouse=True)
def _clean():
    yield
    gc.enable()
    PATCHES.undo()


@pytest.fixture
def train_file(tmp_path):
    return str(write_jsonl(tmp_path / "train.jsonl", [{"text": "a"}]))


def arguments(tmp_path, train_file, folds=2, **training):
    training = {"seed": 7, **training}
    return (
        ModelArguments(family="cool", backbone="tiny"),
        DataArguments(train_file=train_file, num_folds=folds),
        TrainingArguments(output_dir=str(tmp_path / "out"), report_to="none", use_cpu=True, **training),
    )


def test_every_fold_is_a_run_of_its_own(tmp_path, train_file, caplog):
    runs, given = Runs(), arguments(tmp_path, train_file, folds=3, data_seed=3)
    with caplog.at_level(logging.INFO):
        result = prepare_run(runs, *given).execute()
    assert result == pytest.approx(
        {"eval_f1_mean": 0.2, "eval_f1_std": 0.1, "predict_f1_mean": 0.5, "predict_f1_std": 0.0}
    )
    folds = [(data.held_out.number, data.held_out.count, data.held_out.seed) for _, data, _ in runs.prepared]
    assert folds == [(1, 3, 3), (2, 3, 3), (3, 3, 3)]
    assert runs.seeds == [7, 8, 9]
    assert [args.output_dir for *_, args in runs.prepared] == [str(tmp_path / f"out/fold-{k}") for k in (1, 2, 3)]
    assert all(args.do_train and args.do_eval and args.do_predict for *_, args in runs.prepared)
    assert (given[1].max_seq_length, given[2].seed, given[1].held_out) == (128, 7, None)
    written = json.loads((tmp_path / "out" / "folds.json").read_text())
    assert (written["mean"]["eval_f1"], written["std"]["predict_f1"]) == pytest.approx((0.2, 0.0))
    assert [fold["eval_f1"] for fold in written["folds"]] == [0.1, 0.2, 0.3]
    assert written["folds"][0]["train_loss"] == 1.0
    assert re.search(r"Fold 2 of 3: eval_f1 0.2000, predict_f1 0.5000; about \d:\d\d:\d\d left\.", caplog.text)
    assert "| eval_f1 | 0.2000 | 0.1000 |" in caplog.text


def test_without_folds_the_run_is_the_task_s(tmp_path, train_file):
    runs = Runs()
    command = prepare_run(runs, *arguments(tmp_path, train_file, folds=None))
    assert not isinstance(command.work, CrossValidation)
    assert len(runs.prepared) == 1


def test_finished_folds_are_read_and_not_run_again(tmp_path, train_file):
    with pytest.raises(RuntimeError, match="killed"):
        prepare_run(Runs(failing=2), *arguments(tmp_path, train_file)).execute()
    (tmp_path / "out" / "fold-2").mkdir(exist_ok=True)
    for name in ("eval_predictions.json", UNFINISHED):  # it was killed before its first checkpoint
        (tmp_path / "out" / "fold-2" / name).touch()
    again = Runs()
    result = prepare_run(again, *arguments(tmp_path, train_file, logging_steps=3)).execute()
    assert [(data.held_out.number, data.held_out.seed) for _, data, _ in again.prepared] == [(2, 7)]
    assert not (tmp_path / "out" / "fold-2" / "eval_predictions.json").exists()
    assert result["eval_f1_mean"] == pytest.approx(0.15)
    third = Runs()
    assert prepare_run(third, *arguments(tmp_path, train_file)).execute() == result
    assert not third.prepared


def test_single_folds_make_the_same_cross_validation(tmp_path, train_file):
    whole = prepare_run(Runs(), *arguments(tmp_path / "whole", train_file)).execute()
    for fold in (2, 1):
        runs, (model, data, training) = Runs(), arguments(tmp_path, train_file)
        data.fold = fold
        metrics = prepare_run(runs, model, data, training).execute()
        assert [data.held_out.number for _, data, _ in runs.prepared] == [fold]
        assert metrics["eval_f1"] == pytest.approx(0.1 * fold)
    rest = Runs()
    assert prepare_run(rest, *arguments(tmp_path, train_file)).execute() == whole
    assert not rest.prepared
    written = [json.loads((tmp_path / folder / "folds.json").read_text()) for folder in ("out", "whole/out")]
    assert written[0] == written[1]


@pytest.mark.parametrize(("fold", "folds"), [(4, 3), (0, 3), (1, None)])
def test_a_fold_beyond_their_number_is_refused(fold, folds, train_file):
    with pytest.raises(ValueError, match=f"--fold .* got {fold} of {folds}"):
        DataArguments(train_file=train_file, num_folds=folds, fold=fold)


def test_a_fold_that_is_trained_is_only_scored(tmp_path, train_file):
    with pytest.raises(RuntimeError):
        prepare_run(Runs(failing=1), *arguments(tmp_path, train_file)).execute()
    (tmp_path / "out" / "fold-1").mkdir(exist_ok=True)
    (tmp_path / "out" / "fold-1" / "trainer_state.json").write_text("{}")
    runs = Runs()
    prepare_run(runs, *arguments(tmp_path, train_file)).execute()
    (_, _, training_args), (_, _, next_args) = runs.prepared
    assert training_args.resume_from_checkpoint == training_args.output_dir == str(tmp_path / "out" / "fold-1")
    assert (training_args.do_predict, next_args.do_train, next_args.resume_from_checkpoint) == (True, True, None)


def test_a_fold_that_fails_in_a_worker_is_named_when_the_others_are_done(tmp_path, train_file, monkeypatch, capsys):
    monkeypatch.setattr(executors, "WORKER", (sys.executable, "-c", WORKER))
    monkeypatch.setenv("FAILING", "fold-2")
    given = arguments(tmp_path, train_file, folds=3, workers=2)
    with pytest.raises(SystemExit) as ended:
        prepare_run(Runs(), *given).execute()
    assert ended.value.code == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"error: Fold 2 failed: no such parser \(.*worker-[12].log\)\. The other folds are finished: repeat"
        r" the command to run only the failed ones\.",
        error,
    )
    monkeypatch.setenv("FAILING", "none")
    assert prepare_run(Runs(), *given).execute() == {"eval_f1_mean": 8.0, "eval_f1_std": 1.0}


def test_another_command_is_refused(tmp_path, train_file):
    prepare_run(Runs(), *arguments(tmp_path, train_file)).execute()
    for change, message in (
        ({"folds": 4}, "its num_folds is 2, but now it is 4"),
        ({"seed": 8}, "its seed is 7, but now it is 8"),
        ({"learning_rate": 1.0}, "its learning_rate is 5e-05, but now it is 1.0. Repeat the command of that run"),
    ):
        with pytest.raises(ValueError, match=message):
            prepare_run(Runs(), *arguments(tmp_path, train_file, **change))


def test_other_rows_are_refused(tmp_path, train_file):
    prepare_run(Runs(), *arguments(tmp_path, train_file)).execute()
    moved = write_jsonl(tmp_path / "moved.jsonl", [{"text": "a"}])
    prepare_run(Runs(), *arguments(tmp_path, str(moved))).execute()  # the same ones elsewhere are the same
    write_jsonl(moved, [{"text": "b"}])
    with pytest.raises(ValueError, match=r"its train_file is 'sha256 .*Repeat the command"):
        prepare_run(Runs(), *arguments(tmp_path, str(moved)))


def test_settings_know_folders_and_no_secrets(tmp_path, train_file):
    model_args, data_args, training_args = arguments(tmp_path, train_file)
    model_args.token, training_args.hub_token = "secret", "secret"
    data_args.test_file = str(tmp_path)
    before = settings_of(model_args, data_args, training_args)
    assert "secret" not in json.dumps(before)
    write_jsonl(tmp_path / "more.jsonl", [])
    after = settings_of(model_args, data_args, training_args)
    assert {name for name in before if before[name] != after[name]} == {"test_file"}


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            {"resume_from_checkpoint": "out/checkpoint-3"},
            "--resume_from_checkpoint out/checkpoint-3 cannot be used with --num_folds",
        ),
        ({"push_to_hub": True}, "--push_to_hub cannot be used with --num_folds"),
    ],
)
def test_arguments_that_do_not_go_with_folds(tmp_path, train_file, training, message):
    with pytest.raises(ValueError, match=message):
        prepare_run(Runs(), *arguments(tmp_path, train_file, **training))


def test_a_folder_with_something_else_is_in_the_way(tmp_path, train_file):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"not empty \(thesis.tex\) and holds no folds.json to continue"):
        prepare_run(Runs(), *arguments(tmp_path, train_file))
    (tmp_path / "out" / "folds.json").write_text('{\n"folds"')
    with pytest.raises(ValueError, match=r"folds.json, line 2, column 8: invalid JSON"):
        prepare_run(Runs(), *arguments(tmp_path, train_file))


def test_only_scores_that_all_folds_have_are_averaged():
    assert scores_of({"train_loss": 1, "eval_f1": 1, "eval_samples": 3, "eval_bleu_signature": "x"}) == {"eval_f1": 1}
    assert summary_of([]) == ({}, {})
    assert summary_of([{"eval_f1": 0.5}]) == ({"eval_f1": 0.5}, {})
    means, deviations = summary_of([{"eval_f1": 0.5, "eval_PER_f1": 1.0}, {"eval_f1": 1.0}])
    assert (means, deviations) == ({"eval_f1": 0.75}, pytest.approx({"eval_f1": 0.125**0.5}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_folds": 1, "train_file": "x"}, "--num_folds must be at least 2; got 1"),
        (
            {"num_folds": 5, "test_file": "x"},
            "--num_folds splits the training data: give --train_file or --dataset_name",
        ),
    ],
)
def test_options_of_folds(options, message):
    with pytest.raises(ValueError, match=message):
        DataArguments(**options)


def test_a_score_that_is_no_number_is_null_and_counts(tmp_path, train_file, monkeypatch):
    """Also where it is read again: a mean without it would be that of the other folds."""

    def diverged(training_args, metrics, write=write_all_results):
        write(training_args, {**metrics, "eval_mse": math.nan if "fold-1" in training_args.output_dir else 1.0})

    monkeypatch.setattr("tests.studies.test_cross_validation.write_all_results", diverged)
    with pytest.raises(RuntimeError, match="killed"):
        prepare_run(Runs(failing=2), *arguments(tmp_path, train_file)).execute()
    result = prepare_run(Runs(), *arguments(tmp_path, train_file)).execute()
    assert math.isnan(result["eval_mse_mean"])
    assert math.isnan(result["eval_mse_std"])

    def fail(constant):
        raise AssertionError(f"{constant} is not JSON")

    written = json.loads((tmp_path / "out" / "folds.json").read_text(), parse_constant=fail)
    assert (written["folds"][0]["eval_mse"], written["mean"]["eval_mse"]) == (None, None)
