"""Runs of trials. Each is known again by its settings, so that none is run twice.

A finished trial is a file of results, which tables share: the same baseline is trained once. A trial that was killed
goes on from its last checkpoint.
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
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import TrainerCallback, TrainerState

from hf_localattn.families import FAMILIES
from hf_localattn.files import discard, remove_leftovers
from hf_localattn.hub.record import LIBRARIES
from hf_localattn.parsing import read_json
from hf_localattn.reproduction.cli_args import to_cli_args
from hf_localattn.reproduction.measures import MEASURES
from hf_localattn.reproduction.plan import Trial
from hf_localattn.reproduction.scripts import QUIET, SCRIPTS, make_arguments
from hf_localattn.reproduction.tables import load_table
from hf_localattn.studies.results import entry, write_results
from hf_localattn.studies.settings import digest_of, settings_of
from hf_localattn.studies.trial import Arguments, free_memory, prepare_part
from hf_localattn.training.output_folder import STATE
from hf_localattn.training.run import Run, prepare_run

RESULT = "result.json"
PROGRESS = "progress.json"
MODEL = "model"

NOT_TESTED = (
    *("family", "backbone", "dataset_name", "dataset_config_name", "train_file", "validation_file"),
    *("do_train", "do_eval", "early_stopping_patience", "eval_strategy", "load_best_model_at_end"),
)
"""Arguments of a trial that are not for the tests of its model on other corpora."""


class Runner:
    """Runs trials in a folder, and finds those that were run there before.

    Args:
        folder: with a subfolder for each trial.
        keep_models: leave the trained models there.
    """

    def __init__(self, folder: Path, *, keep_models: bool = False):
        self.folder, self.keep_models = folder, keep_models

    def folder_of(self, trial: Trial) -> Path:
        """Return where a trial is trained; the same for all that train the same, of whatever row or table."""
        # Times are those of a machine.
        machine = (
            [_device(), torch.get_num_threads()] if any(score.ratio for score in trial.task.scores.values()) else []
        )
        fold = trial.fold and [trial.fold.number, trial.fold.count]
        content = [trial.task.script, self.settings(trial), trial.seed, fold, machine]
        return self.folder / named(trial.task.script, content)

    def result_of(self, trial: Trial) -> dict[str, Any] | None:
        """Return what a finished trial has measured, None if it is not finished."""
        path = self.folder_of(trial) / RESULT
        if not path.is_file():
            return None
        found = read_json(path)
        # A model that was tested on more corpora than these serves; one that was tested on fewer does not.
        return found if _tests(trial).items() <= entry(found, "tests", dict, path).items() else None

    def model_of(self, trial: Trial) -> Path | None:
        """Return the folder of a trial's model, if it was kept."""
        model = self.folder_of(trial) / MODEL
        return model if model.is_dir() else None

    def is_trained(self, trial: Trial) -> bool:
        """Return True if the trial's model is there, trained to its end."""
        return (self.folder_of(trial) / MODEL / STATE).is_file()

    def run(self, trial: Trial) -> dict[str, Any]:
        """Run a trial, or go on with it, and return what it has measured; a finished one is not run again.

        Raises:
            ValueError, OSError: arguments, data or model cannot be used.
        """
        folder = self.folder_of(trial)
        model = folder / MODEL
        if (done := self.result_of(trial)) is not None:
            self._tidy(folder)
            return done
        remove_leftovers(folder)
        known: dict[str, Any] = {}
        if (folder / RESULT).is_file():  # it was tested on other corpora than these
            if self.is_trained(trial):
                known = read_json(folder / RESULT)
            else:
                (folder / RESULT).unlink()  # another model is trained, which may score otherwise
        if trial.task.script in MEASURES:
            metrics, data = MEASURES[trial.task.script](trial.arguments), {}
        else:
            run = self.prepare(trial, model)
            progress = Progress(folder / PROGRESS, run, keep=self.keep_models or bool(known))
            run.trainer.add_callback(progress)
            with quiet():
                metrics = run.execute()
            # What was measured before this process began is in the folder.
            metrics = read_json(model / "all_results.json") | metrics | known.get("metrics", {})
            if progress.epochs:
                metrics["train_seconds_per_epoch"] = progress.seconds / progress.epochs
            data = known.get("data", {}) | progress.data
            del run
            for title, arguments in trial.tests.items():
                tested, data[title] = self._test(trial, arguments, model)
                metrics |= {f"{name}@{title}": value for name, value in tested.items()}
            free_memory()
        result = {
            "script": trial.task.script,
            "seed": trial.seed,
            "fold": trial.fold and trial.fold.number,
            "data": data,
            "tests": known.get("tests", {}) | _tests(trial),
            "versions": {name: version(name) for name in LIBRARIES},
            "device": _device(),
            "threads": torch.get_num_threads(),
            "metrics": metrics,
        }
        write_results(folder / RESULT, result)
        self._tidy(folder)
        return result

    def _tidy(self, folder: Path) -> None:
        """Remove what a finished trial needs no more, also if it was killed when it was about to."""
        progress = folder / PROGRESS
        if progress.is_file():
            if not read_json(progress).get("keep", True):
                discard(folder / MODEL)
            progress.unlink()
        remove_leftovers(folder)

    def prepare(self, trial: Trial, folder: Path, **own: Any) -> Run:
        """Return a trial's run in a folder, ready to go.

        Args:
            trial: of the plan.
            folder: where it is trained.
            **own: arguments in place of the trial's.

        Raises:
            ValueError, OSError: arguments, data or model cannot be used.
        """
        model_args, data_args, training_args = self.arguments_of(trial, **own)
        task = SCRIPTS[trial.task.script]
        with quiet():
            return prepare_part(
                task, model_args, data_args, training_args, folder=folder, seed=trial.seed, fold=trial.fold
            )

    def arguments_of(self, trial: Trial, **own: Any) -> Arguments:
        """Return a trial's arguments, as its script would read them; `own` are in place of the trial's.

        Raises:
            ValueError: there cannot be such ones.
        """
        common = {**QUIET, "save_total_limit": 1, "output_dir": str(self.folder / MODEL)}
        return make_arguments(trial.task.script, {**trial.arguments, **common, **own})

    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return the settings that scores depend on, without seed and fold; files count by their content."""
        if trial.task.script in MEASURES:
            # Folders of results are named after this list: each word of a command line, read after its option.
            words = to_cli_args(trial.arguments)
            pairs = zip(words, (*words[1:], None), strict=True)
            return {"words": [digest_of(name.removeprefix("--"), value) for name, value in pairs]}
        return settings_of(*self.arguments_of(trial))

    def _test(
        self, trial: Trial, arguments: Mapping[str, Any], model: Path
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Test the trained model on another corpus, and tell which rows these were."""
        own: dict[str, Any] = dict.fromkeys(NOT_TESTED)
        own |= {"model_name_or_path": str(model), "output_dir": str(model / "test"), "do_predict": True, **arguments}
        family = FAMILIES.get(trial.arguments["family"])
        if family is not None:  # the parser, which the checkpoint of a model cannot choose by itself
            own["local_config"] = family.split_fields(trial.arguments["local_config"])[1]
        model_args, data_args, training_args = self.arguments_of(trial, **own)
        with quiet():
            run = prepare_run(SCRIPTS[trial.task.script], model_args, data_args, training_args)
            return run.execute(), fingerprint(run.data["test"])


@dataclass(frozen=True)
class RunJob:
    """A run for a worker process, which leaves its result in the run's folder.

    Attributes:
        table: name of the table.
        trial: of the plan.
        runs: folder of all runs.
        keep_models: leave the trained model there.
    """

    table: str
    trial: Trial
    runs: Path
    keep_models: bool

    @cached_property  # it digests all files that the run reads
    def folder(self) -> Path:
        """Folder in which it is run."""
        return Runner(self.runs).folder_of(self.trial)

    def to_json(self) -> str:
        """Return it as one line."""
        trial = self.trial
        return json.dumps(
            {
                "table": self.table,
                "row": trial.row.name,
                "task": trial.task.name,
                "number": trial.number,
                "arguments": trial.arguments,
                "tests": trial.tests,
                "runs": str(self.runs.absolute()),
                "keep_models": self.keep_models,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> RunJob:
        """Make it of that line."""
        found = json.loads(line)
        table = load_table(found["table"])
        row, task = table.rows[found["row"]], table.tasks[found["task"]]
        trial = Trial(row, task, found["number"], found["arguments"], found["tests"])
        return cls(found["table"], trial, Path(found["runs"]), found["keep_models"])

    def run(self) -> dict[str, Any]:
        """Run it in this process, and return its metrics."""
        return Runner(self.runs, keep_models=self.keep_models).run(self.trial)["metrics"]


def named(kind: str, content: Any) -> str:
    """Return the name of a folder for what is known by its content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def fingerprint(rows: datasets.Dataset) -> dict[str, Any]:
    """Return the number of rows and a digest of them, by which it can be told whether data are the same."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str, ensure_ascii=False).encode())
    return {"rows": len(rows), "digest": f"sha256 {digest.hexdigest()}"}


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def _tests(trial: Trial) -> dict[str, dict[str, Any]]:
    """Return the data arguments of each further test corpus by its title, with digests in place of files."""
    return {
        title: {name: digest_of(name, value) for name, value in arguments.items()}
        for title, arguments in trial.tests.items()
    }


class Progress(TrainerCallback):
    """Progress that is kept across restarts of a run: digests of its data, and the seconds of its epochs.

    Only whole epochs count, without evaluations, and without what is done between epochs, such as saving.

    Args:
        path: a file; where it is there, an earlier part of the run has left it.
        run: about to train.
        keep: whether the model stays when the trial is finished.
    """

    def __init__(self, path: Path, run: Run, *, keep: bool = True):
        known = read_json(path) if path.is_file() and not _is_new(run) else {}
        self.path, self.keep = path, keep
        self.seconds: float = known.get("seconds", 0.0)
        self.epochs: int = known.get("epochs", 0)
        self.data: dict[str, Any] = known.get("data", {})
        self.data |= {split: fingerprint(rows) for split, rows in run.data.items()}
        self._begun: float | None = None
        self._write()

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._begun = time.perf_counter() if float(state.epoch or 0.0).is_integer() else None

    def on_log(self, *args: Any, logs: Mapping[str, float] | None = None, **kwargs: Any) -> None:
        if self._begun is not None:
            self._begun += (logs or {}).get("eval_runtime", 0.0)

    def on_epoch_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self._begun is not None and float(state.epoch or 0.0).is_integer():  # `max_steps` may end it before
            self.seconds += time.perf_counter() - self._begun
            self.epochs, self._begun = self.epochs + 1, None
            self._write()

    def _write(self) -> None:
        found = {"seconds": self.seconds, "epochs": self.epochs, "data": self.data, "keep": self.keep}
        write_results(self.path, found)


def _is_new(run: Run) -> bool:
    """Return True if the run trains, and from the first step."""
    return run.trainer.args.do_train and not run.trainer.args.resume_from_checkpoint


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what a script says to itself, but for warnings and errors: a table is many runs."""
    own = logging.getLogger("hf_localattn")
    level, verbosity = own.level, transformers.utils.logging.get_verbosity()
    own.setLevel(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()  # or each model's loading tells which of its weights are new
    bars = (datasets.utils.logging, transformers.utils.logging)
    were_on = [bar.is_progress_bar_enabled() for bar in bars]
    for bar in bars:
        bar.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        own.setLevel(level)
        transformers.utils.logging.set_verbosity(verbosity)
        for bar, was_on in zip(bars, were_on, strict=True):
            if was_on:
                bar.enable_progress_bar()
