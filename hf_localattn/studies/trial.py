"""Trials: training runs as plain data, which any process can run, or go on with where another one was killed."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import json
import logging
import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from hf_localattn.claims import LOCK, claimed
from hf_localattn.data.folds import Fold
from hf_localattn.files import UNFINISHED, writing
from hf_localattn.parsing import read_json
from hf_localattn.studies.results import as_written, check_same_settings, entry, settings_of, write_results
from hf_localattn.tasks import TASKS, DataArguments, Task, choose_task, get_task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.output_folder import STATE, check_unused, last_complete_checkpoint
from hf_localattn.training.run import Run, prepare_run, training_arguments_of

logger = logging.getLogger(__name__)

RESULT = "trial_results.json"
UNUSED = Path("unused")
"""An output folder for arguments that are only looked at."""

Arguments = tuple[ModelArguments, Any, TrainingArguments]


@dataclass(frozen=True)
class Trial:
    """One training run, as data that can be written to JSON.

    Attributes:
        task: the name of the task, such as "question-answering".
        model, data, training: arguments by name, of the task's dataclasses; defaults need not be given. With
            `do_eval` and `do_predict` the trained model is evaluated and used for predictions.
        seed: the seed of the run.
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
        """Return the trial of parsed arguments.

        Args:
            task: one of `hf_localattn.tasks.TASKS`.
            model_args, data_args, training_args: the arguments that all trials of a study have in common.
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
        """Return the trial of a dictionary that `dataclasses.asdict` has made."""
        fold = found["fold"]
        return cls(**{**found, "fold": None if fold is None else Fold(**fold)})

    def arguments(self, folder: Path) -> Arguments:
        """Return the dataclasses of its arguments, for a run in a folder, on one GPU where there are GPUs.

        Raises:
            ValueError: there cannot be such arguments.
        """
        task = get_task(self.task)
        data_args = task.DataArguments(**self.data)
        data_args.fold = self.fold
        training_args = training_arguments_of(task)(**self.training, seed=self.seed, output_dir=str(folder))
        # One GPU, as in a worker: with several ones Trainer would have larger batches.
        training_args._n_gpu = min(1, training_args.n_gpu)
        return ModelArguments(**self.model), data_args, training_args

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings that its scores depend on; files and folders count by their content."""
        own: dict[str, Any] = {"task": self.task, "fold": None if self.fold is None else dataclasses.asdict(self.fold)}
        own |= {name: bool(self.training.get(name)) for name in ("do_eval", "do_predict")}  # which scores there are
        return settings_of(*self.arguments(UNUSED)) | own

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
        run: the run. Arguments for another one reset the state of accelerate, so it has to be completed before.
        is_first: True for one process of several on the machines of a run: it claims the folder.
        writes: True for the process that writes results.
    """

    run: Run
    is_first: bool
    writes: bool


def run_trial(
    trial: Trial,
    folder: Path,
    *,
    prepared: Prepared | None = None,
    set_up: Callable[[Run], None] | None = None,
) -> dict[str, Any]:
    """Run a trial in this process, or go on with one that was killed, and return its metrics.

    A finished trial has a file of results in its folder, whole or not at all, and is not run again.

    Args:
        trial: the trial.
        folder: a folder for this trial alone. Model and checkpoints stay there.
        prepared: the result of `prepare_trial`, if that was called before.
        set_up: called with the run before it starts, for instance to add a callback to its trainer.

    Raises:
        ValueError: arguments, data or model cannot be used, another process is at the folder, or the folder holds
            another trial.
        OSError: arguments, data or model cannot be used.
    """
    is_first = trial.arguments(folder)[2].process_index == 0 if prepared is None else prepared.is_first
    with claimed(folder) if is_first else nullcontext():
        metrics = result_of(trial, folder) if prepared is None else None
        if metrics is not None:
            return metrics
        try:
            with writing(folder):
                prepared = prepared or prepare_trial(trial, folder)
                if set_up is not None:
                    set_up(prepared.run)
                metrics = prepared.run.execute()
                if prepared.writes:
                    # What was measured before this process began is in the folder.
                    metrics = read_json(folder / "all_results.json") | metrics
                    write_results(folder / RESULT, {"settings": trial.settings, "metrics": metrics})
                return metrics
        finally:
            prepared = None
            free_memory()


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

    The run goes on from what is in the folder. What a run left there that was killed before its first checkpoint is
    removed.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    model_args, data_args, training_args = trial.arguments(folder)
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
    run = prepare_run(get_task(trial.task), model_args, data_args, training_args)
    return Prepared(run, training_args.process_index == 0, training_args.should_save)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name == LOCK:
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
