"""Trials: training runs as plain data, which any process can run, or go on with where another one was killed."""

from __future__ import annotations

import copy
import dataclasses
import gc
import hashlib
import json
import logging
import math
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from hf_localattn.claims import LOCK, claimed
from hf_localattn.data.folds import Fold
from hf_localattn.files import UNFINISHED, writing
from hf_localattn.parsing import read_json
from hf_localattn.studies.results import as_written, check_same_settings, entry, write_results
from hf_localattn.studies.settings import settings_of
from hf_localattn.tasks import TASKS, DataArguments, Task, choose_task, get_task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.output_folder import STATE, check_unused, last_complete_checkpoint
from hf_localattn.training.run import Run, prepare_run, training_arguments_of

logger = logging.getLogger(__name__)

RESULT = "trial_results.json"
Arguments = tuple[ModelArguments, Any, TrainingArguments]


@dataclass(frozen=True)
class Trial:
    """One training run, as data that can be written to JSON.

    Attributes:
        task: its name, such as "question-answering".
        model, data, training: arguments by name, of the task's dataclasses. What is left out has its default.
            `training` says what is done (`do_eval`, `do_predict`) besides training.
        seed: of this run.
        fold: the part of the data that it works on; by default all of them.

    Example:
        >>> trial = Trial(
        ...     "text-classification",
        ...     model={"family": "cool", "backbone": "tiny"},
        ...     data={"train_file": "train.csv", "validation_file": "dev.csv"},
        ...     training={"do_eval": True, "num_train_epochs": 3},
        ... )
        >>> metrics = run_trial(trial, Path("runs") / trial.name)
    """

    task: str
    model: Mapping[str, Any]
    data: Mapping[str, Any]
    training: Mapping[str, Any]
    seed: int = 0
    fold: Fold | None = None

    @classmethod
    def of(
        cls,
        task: type[Task],
        model_args: ModelArguments,
        data_args: DataArguments,
        training_args: TrainingArguments,
        **changes: Any,
    ) -> Trial:
        """Make a trial of parsed arguments.

        Args:
            task: one of `hf_localattn.tasks.TASKS`.
            model_args, data_args, training_args: what all trials of a study have in common.
            **changes: training arguments of this trial, and its `fold`.

        Raises:
            ValueError: the task is not in `TASKS`.
        """
        fold = changes.pop("fold", data_args.fold)
        # The token that is masked there serves uploads, which no trial makes.
        alone = {"hub_token": None, "workers": 1, "ray_address": None}
        training = as_written({**training_args.to_dict(), **alone, **changes})
        training.pop("output_dir")
        name = next((name for name, known in TASKS.items() if known is choose_task(task, data_args)), None)
        if name is None:
            raise ValueError(f"Other processes do not know the task {task.__name__}: it is not in `TASKS`.")
        return cls(name, _initial(model_args), _initial(data_args), training, training.pop("seed"), fold)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Trial:
        """Make a trial of what `dataclasses.asdict` has made of one."""
        fold = found["fold"]
        return cls(**{**found, "fold": None if fold is None else Fold(**fold)})

    def arguments(self, folder: Path) -> Arguments:
        """Return the dataclasses of its arguments, for a run in a folder.

        Raises:
            ValueError: there cannot be such arguments.
        """
        task = get_task(self.task)
        data_args = task.DataArguments(**self.data)
        data_args.fold = self.fold
        training_args = training_arguments_of(task)(**self.training, seed=self.seed, output_dir=str(folder))
        return ModelArguments(**self.model), data_args, training_args

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings that its scores depend on; files and folders count by their content."""
        own: dict[str, Any] = {"task": self.task, "fold": None if self.fold is None else dataclasses.asdict(self.fold)}
        own |= {name: bool(self.training.get(name)) for name in ("do_eval", "do_predict")}  # which scores there are
        return settings_of(*self.arguments(Path("unused"))) | own

    @property
    def name(self) -> str:
        """A name for its folder, the same for all trials with these settings."""
        text = json.dumps(self.settings, sort_keys=True)
        return f"{self.task}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _initial(arguments: Any) -> dict[str, Any]:
    return {field.name: getattr(arguments, field.name) for field in dataclasses.fields(arguments) if field.init}


@dataclass
class Prepared:
    """A trial's run that is ready to go, and whether this process is the one that writes.

    Attributes:
        run: to be completed before arguments are made for another one, which resets the state of accelerate.
        is_first: True for one process of several on the machines of a run: it claims the folder.
        writes: True for the process that writes results.
    """

    run: Run
    is_first: bool
    writes: bool


def run_trial(trial: Trial, folder: Path, *, keep: bool = True, prepared: Prepared | None = None) -> dict[str, Any]:
    """Run a trial in this process, or go on with one that was killed, and return its metrics.

    A finished trial has a file of results in its folder, whole or not at all, and is not run again.

    Args:
        trial: what to run.
        folder: of this trial alone.
        keep: leave model and checkpoints there.
        prepared: of `prepare_trial`, if that was called before.

    Raises:
        ValueError: arguments, data or model cannot be used, another process is at the folder, or the folder holds
            another trial.
        OSError: arguments, data or model cannot be used.
    """
    is_first = trial.arguments(folder)[2].process_index == 0 if prepared is None else prepared.is_first
    with ExitStack() as claim:
        if is_first:
            claim.enter_context(claimed(folder))
        metrics = result_of(trial, folder) if prepared is None else None
        if metrics is None:
            try:
                with writing(folder):
                    prepared = prepared or prepare_trial(trial, folder)
                    metrics = prepared.run.execute()
                    if prepared.writes:
                        # What was measured before this process began is in the folder.
                        metrics = read_json(folder / "all_results.json") | metrics
                        write_results(folder / RESULT, {"settings": trial.settings, "metrics": metrics})
            finally:
                prepared = None
                free_memory()
        if not keep and is_first:
            _clear(folder, but=RESULT)
    return metrics


def result_of(trial: Trial, folder: Path) -> dict[str, Any] | None:
    """Return the metrics of a finished trial; None if it is not finished.

    Raises:
        ValueError: the folder holds the results of another trial, or something else.
    """
    path = folder / RESULT
    if not path.is_file():
        return None
    known = read_json(path)
    check_same_settings(path, entry(known, "settings", dict, path), trial.settings, "results of another trial")
    return with_nan(entry(known, "metrics", dict, path))


def with_nan(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics as they were before they were written: a score that is not a number is null in JSON."""
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def prepare_trial(trial: Trial, folder: Path) -> Prepared:
    """Return a trial's run, ready to go; all that can be checked is.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    model_args, data_args, training_args = trial.arguments(folder)
    run = _prepare(get_task(trial.task), model_args, data_args, training_args)
    return Prepared(run, training_args.process_index == 0, training_args.should_save)


def prepare_part(
    task: type[Task],
    model_args: ModelArguments,
    data_args: DataArguments,
    training_args: TrainingArguments,
    *,
    folder: Path,
    seed: int,
    fold: Fold | None = None,
) -> Run:
    """Return a run in a folder of its own that trains, or takes up what was trained there, and then is scored.

    Args:
        task: one of `hf_localattn.tasks.TASKS`.
        model_args, data_args, training_args: arguments of all the runs; they stay as they are.
        folder: folder of this run. What a run left there that was killed before its first checkpoint is removed.
        seed: seed of this run.
        fold: the part of the data that it works on; by default all of them.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    # Preparing a run writes into them.
    model_args, data_args, training_args = copy.copy(model_args), copy.copy(data_args), copy.copy(training_args)
    if fold is not None:
        data_args.folds, data_args.fold = fold.count, fold
        training_args.do_eval = training_args.do_predict = True
    training_args.output_dir = str(folder)
    training_args.seed = seed
    return _prepare(task, model_args, data_args, training_args)


def _prepare(task: type[Task], model_args: ModelArguments, data_args: Any, training_args: TrainingArguments) -> Run:
    folder = Path(training_args.output_dir)
    training_args.resume_from_checkpoint = None
    training_args.do_train = True
    if (folder / STATE).exists():
        logger.warning("%s is trained, but not scored.", folder)
        training_args.resume_from_checkpoint = str(folder)
    elif folder.is_dir() and training_args.should_save and last_complete_checkpoint(folder) is None:
        if (folder / UNFINISHED).is_file():  # it was killed before its first checkpoint
            _clear(folder)
        else:
            check_unused(folder, "trial to go on from")
    return prepare_run(task, model_args, data_args, training_args)


def _clear(folder: Path, but: str | None = None) -> None:
    for path in folder.iterdir():
        if path.name in (LOCK, but):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def free_memory() -> None:
    """Free the model of a run that is finished."""
    gc.collect()  # a trainer and its model hold each other
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
