"""Runs of a table: trials with a result file, in folders named by the settings of the trials.

Tables share finished runs: a baseline of several tables is trained only once. A killed run resumes from its last
checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import TrainerCallback, TrainerState

from hf_localattn.files import discard, remove_leftovers
from hf_localattn.hub.record import LIBRARIES
from hf_localattn.parsing import read_json
from hf_localattn.registry import FAMILIES
from hf_localattn.studies.executors import Job
from hf_localattn.studies.results import digest_of, entry, write_results
from hf_localattn.studies.trial import Trial, free_memory, run_trial
from hf_localattn.tasks import get_task
from hf_localattn.tasks.run import Run, prepare_run
from hf_localattn.training.example_scores import copy_example_scores, fingerprint
from hf_localattn.training.output_folder import STATE
from reproduction.measures import MEASURES
from reproduction.plan import TableRun

RESULT = "result.json"
PROGRESS = "progress.json"
MODEL = "model"

NOT_TESTED = (
    *("family", "backbone", "dataset_name", "dataset_config_name", "train_file", "validation_file"),
    *("do_train", "do_eval", "early_stopping_patience", "eval_strategy", "load_best_model_at_end"),
)
"""Arguments of a trial that do not apply when its model is tested on other corpora."""

Tests = Mapping[str, Mapping[str, Any]]
"""Data arguments of each further test corpus, by title."""


class Runner:
    """Executes the runs of tables in a folder, and finds finished runs there.

    Args:
        folder: folder of all runs, with a subfolder for each run.
        keep_models: keep the trained models.
    """

    def __init__(self, folder: Path, *, keep_models: bool = False):
        self.folder, self.keep_models = folder, keep_models

    def folder_of(self, run: TableRun) -> Path:
        """Return the folder of a run. Runs with the same settings have the same folder, in any table."""
        # Times depend on the machine, so its name is part of the folder name.
        machine = [device_name(), torch.get_num_threads()] if run.has_ratios else []
        fold = run.fold and [run.fold.number, run.fold.count]
        content = [run.task.script, run.settings, run.seed, fold, machine]
        return self.folder / named(run.task.script, content)

    def result_of(self, run: TableRun) -> dict[str, Any] | None:
        """Return the record of a run, or None if the run is not finished."""
        return finished(self.folder_of(run), run.tests)

    def model_of(self, run: TableRun) -> Path | None:
        """Return the folder of a run's model, or None if the model was not kept."""
        model = self.folder_of(run) / MODEL
        return model if model.is_dir() else None

    def is_trained(self, run: TableRun) -> bool:
        """Return True if the model of a run exists and is completely trained."""
        return (self.folder_of(run) / MODEL / STATE).is_file()

    def job(self, run: TableRun) -> Job:
        """Return a job that executes a run with training in another process."""
        return Job(run.trial, self.folder_of(run), run_with_record, self._options(run))

    def run(self, run: TableRun) -> dict[str, Any]:
        """Execute or resume a run unless it is finished, and return its record.

        Raises:
            ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
        """
        folder = self.folder_of(run)
        if run.trains:
            run_with_record(run.trial, folder, **self._options(run))
        elif self.result_of(run) is None:
            write_record(folder, run.task.script, run.seed, None, metrics=MEASURES[run.task.script](run.arguments))
        found = self.result_of(run)
        assert found is not None
        return found

    def _options(self, run: TableRun) -> dict[str, Any]:
        return {"script": run.task.script, "tests": run.tests, "keep_model": self.keep_models}


def run_with_record(trial: Trial, folder: Path, *, script: str, tests: Tests, keep_model: bool) -> dict[str, Any]:
    """Run a trial, test its model on further corpora, and write its record.

    Args:
        trial: the trial.
        folder: folder of the record, with a subfolder for the model.
        script: name of the script in the record.
        tests: data arguments of each further test corpus, by title.
        keep_model: keep the trained model.

    Returns:
        The metrics of the record.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
    """
    if (done := finished(folder, tests)) is not None:
        _tidy(folder)
        return done["metrics"]
    remove_leftovers(folder)
    model, known = folder / MODEL, {}
    if (folder / RESULT).is_file():  # finished with other test corpora
        if (model / STATE).is_file():
            known = read_json(folder / RESULT)
        else:
            (folder / RESULT).unlink()  # the model is trained again and may have other scores
    progress = Progress(folder / PROGRESS, keep=keep_model or bool(known))
    if known:
        metrics, data = known["metrics"], known["data"]
    else:
        with quiet():
            metrics, data = run_trial(trial, model, set_up=progress.watch), progress.data
        copy_example_scores(model, folder)
        if progress.epochs:
            metrics["train_seconds_per_epoch"] = progress.seconds / progress.epochs
    for title, arguments in tests.items():
        tested, data[title] = _test(trial, arguments, model)
        copy_example_scores(model / "test", folder, f"@{title}")
        metrics |= {f"{name}@{title}": value for name, value in tested.items()}
    free_memory()
    known_tests = known.get("tests", {}) | _digests(tests)
    fold = None if trial.fold is None else trial.fold.number
    write_record(folder, script, trial.seed, fold, metrics=metrics, data=data, tests=known_tests)
    _tidy(folder)
    return metrics


def finished(folder: Path, tests: Tests) -> dict[str, Any] | None:
    """Return the record in a folder; None if there is no record, or if it lacks one of the tests."""
    path = folder / RESULT
    if not path.is_file():
        return None
    found = read_json(path)
    return found if _digests(tests).items() <= entry(found, "tests", dict, path).items() else None


def write_record(
    folder: Path,
    script: str,
    seed: int,
    fold: int | None,
    *,
    metrics: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    tests: Mapping[str, Any] | None = None,
) -> None:
    """Write the record of a run: metrics, data, device and versions of libraries."""
    record = {
        "script": script,
        "seed": seed,
        "fold": fold,
        "data": data or {},
        "tests": tests or {},
        "versions": {name: version(name) for name in LIBRARIES},
        "device": device_name(),
        "threads": torch.get_num_threads(),
        "metrics": metrics,
    }
    write_results(folder / RESULT, record)


def _test(trial: Trial, arguments: Mapping[str, Any], model: Path) -> tuple[dict[str, float], dict[str, Any]]:
    """Test a trained model on another corpus; return the metrics and the fingerprint of its rows."""
    model_args, data, training = (
        {name: value for name, value in own.items() if name not in NOT_TESTED}
        for own in (trial.model, trial.data, trial.training)
    )
    family = FAMILIES.get(trial.model["family"])
    # Settings of the tokenizer, such as the parser, are not saved in a checkpoint.
    names = () if family is None else family.tokenizer_settings
    settings = [word for word in trial.model.get("local_config", ()) if word.partition("=")[0].strip() in names]
    model_args |= {"model_name_or_path": str(model), "local_config": settings}
    data |= {name: value for name, value in arguments.items() if value is not None}
    test = Trial(trial.task, model_args, data, {**training, "do_predict": True})
    with quiet():
        run = prepare_run(get_task(test.task), *test.arguments(model / "test"))
        return run.execute(), fingerprint(run.data["test"])


def _tidy(folder: Path) -> None:
    """Remove the temporary files of a finished run. Also remove the model if it is not kept."""
    progress = folder / PROGRESS
    if progress.is_file():
        if not read_json(progress).get("keep", True):
            discard(folder / MODEL)
        progress.unlink()
    remove_leftovers(folder)


def named(kind: str, content: Any) -> str:
    """Return a folder name with a digest of the content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def device_name() -> str:
    """Return the name of the current GPU, or "CPU"."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def _digests(tests: Tests) -> dict[str, dict[str, Any]]:
    """Return the data arguments of each further test corpus, by title, with digests in place of files."""
    return {
        title: {name: digest_of(name, value) for name, value in arguments.items()}
        for title, arguments in tests.items()
    }


class Progress(TrainerCallback):
    """Callback that saves data for restarts of a run: digests of its rows and the time of its epochs.

    Only complete epochs are timed, without evaluations and saving.

    Args:
        path: file of the progress. It exists if the run is resumed.
        keep: keep the model when the run is finished.
    """

    def __init__(self, path: Path, *, keep: bool):
        known = read_json(path) if path.is_file() else {}
        self.path, self.keep = path, keep
        self.seconds: float = known.get("seconds", 0.0)
        self.epochs: int = known.get("epochs", 0)
        self.data: dict[str, Any] = known.get("data", {})
        self._begun: float | None = None
        self._write()

    def watch(self, run: Run) -> None:
        """Add the callback to a run before it starts. Unless the run is resumed, old progress is reset."""
        if run.trainer.args.do_train and not run.trainer.args.resume_from_checkpoint:
            self.seconds, self.epochs, self.data = 0.0, 0, {}
        self.data |= {split: fingerprint(rows) for split, rows in run.data.items()}
        run.trainer.add_callback(self)
        self._write()

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._begun = time.perf_counter() if float(state.epoch or 0.0).is_integer() else None

    def on_log(self, *args: Any, logs: Mapping[str, float] | None = None, **kwargs: Any) -> None:
        if self._begun is not None:
            self._begun += (logs or {}).get("eval_runtime", 0.0)

    def on_epoch_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if (
            self._begun is not None and float(state.epoch or 0.0).is_integer()
        ):  # `max_steps` may end training within an epoch
            self.seconds += time.perf_counter() - self._begun
            self.epochs, self._begun = self.epochs + 1, None
            self._write()

    def _write(self) -> None:
        found = {"seconds": self.seconds, "epochs": self.epochs, "data": self.data, "keep": self.keep}
        write_results(self.path, found)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence all output of a run except warnings and errors."""
    package_logger = logging.getLogger("hf_localattn")
    level, verbosity = package_logger.level, transformers.utils.logging.get_verbosity()
    package_logger.setLevel(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()  # transformers warns about new weights of each model
    bars = (datasets.utils.logging, transformers.utils.logging)
    were_on = [bar.is_progress_bar_enabled() for bar in bars]
    for bar in bars:
        bar.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        package_logger.setLevel(level)
        transformers.utils.logging.set_verbosity(verbosity)
        for bar, was_on in zip(bars, were_on, strict=True):
            if was_on:
                bar.enable_progress_bar()
