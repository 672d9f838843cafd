"""Trials: training runs as plain data. Any process can run or resume a trial."""

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
from hf_localattn.files import UNFINISHED
from hf_localattn.parsing import read_json
from hf_localattn.studies.results import as_written, check_same_settings, entry, settings_of, write_results
from hf_localattn.tasks import TASKS, DataArguments, Task, choose_task, get_task
from hf_localattn.tasks.run import Run, prepare_run
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.output_folder import STATE, check_unused, last_complete_checkpoint

logger = logging.getLogger(__name__)

RESULT = "trial_results.json"
UNUSED = Path("unused")
"""Placeholder for the output folder when arguments are only read."""

Arguments = tuple[ModelArguments, Any, TrainingArguments]


@dataclass(frozen=True)
class Trial:
    """One training run, as JSON-serializable data.

    Attributes:
        task: name of the task, such as "question-answering".
        model: fields of `ModelArguments` by name, without fields at their defaults.
        data: fields of the task's `DataArguments`.
        training: fields of the task's `TrainingArguments`. With `do_eval` and `do_predict`, the trained model
            is evaluated and used for predictions.
        seed: random seed of the run.
        fold: fold of the data that the run uses. Defaults to all data.

    Example:
        >>> trial = Trial(
        ...     "text-classification",
        ...     model={"family": "cool", "backbone": "tiny"},
        ...     data={"train_file": "train.csv", "validation_file": "dev.csv"},
        ...     training={"do_eval": True, "num_train_epochs": 3},
        ... )
        >>> metrics = run_trial(trial, Path("runs") / trial.name)  # doctest: +SKIP
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
        """Return a trial with the arguments of a study.

        Args:
            task: one of `hf_localattn.tasks.TASKS`.
            model_args: the model.
            data_args: the data.
            training_args: training arguments of all trials.
            **changes: training arguments of this trial, and its `fold`.

        Raises:
            ValueError: the task is not in `TASKS`.
        """
        fold = changes.pop("fold", data_args.held_out)
        # `to_dict` masks the token. Only uploads need the token.
        fixed = {"hub_token": None, "workers": 1, "ray_address": None}
        training = as_written({**training_args.to_dict(), **fixed, **changes})
        training.pop("output_dir")
        name = next((name for name, known in TASKS.items() if known is choose_task(task, data_args)), None)
        if name is None:
            raise ValueError(f"The task {task.__name__} cannot be sent to other processes: it is not in `TASKS`.")
        return cls(
            name, _initial(model_args), {**_initial(data_args), "fold": None}, training, training.pop("seed"), fold
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Trial:
        """Return the trial from the result of `dataclasses.asdict`."""
        fold = found["fold"]
        return cls(**{**found, "fold": None if fold is None else Fold(**fold)})

    def arguments(self, folder: Path) -> Arguments:
        """Return the arguments of the trial for a run in a folder, on at most one GPU.

        Raises:
            ValueError: an argument is invalid.
        """
        task = get_task(self.task)
        data_args = task.DataArguments(**self.data)
        data_args.held_out = self.fold
        training_args = task.TrainingArguments(**self.training, seed=self.seed, output_dir=str(folder))
        # Use one GPU, as in a worker. With several GPUs, Trainer would use larger batches.
        training_args._n_gpu = min(1, training_args.n_gpu)
        return ModelArguments(**self.model), data_args, training_args

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings that affect the scores. Files and folders are identified by their content."""
        fold = None if self.fold is None else dataclasses.asdict(self.fold)
        parts = {name: bool(self.training.get(name)) for name in ("do_eval", "do_predict")}
        return settings_of(*self.arguments(UNUSED)) | {"task": self.task, "fold": fold, **parts}

    @property
    def name(self) -> str:
        """Name of the trial's folder. Trials with the same settings have the same name."""
        text = json.dumps(self.settings, sort_keys=True)
        return f"{self.task}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _initial(arguments: Any) -> dict[str, Any]:
    return {field.name: getattr(arguments, field.name) for field in dataclasses.fields(arguments) if field.init}


@dataclass
class Prepared:
    """The prepared run of a trial.

    Attributes:
        run: the run. Execute it before creating arguments of another run, because they reset accelerate.
        is_first: True in the first process of all machines. This process locks the folder.
        writes: True in the process that writes results.
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
    """Run or resume a trial in this process and return its metrics.

    A finished trial has a result file in its folder and is not run again.

    Args:
        trial: the trial.
        folder: folder for this trial only. Model and checkpoints are kept there.
        prepared: result of an earlier call of `prepare_trial`.
        set_up: function that is called with the run before training, for example to add a callback to the trainer.

    Raises:
        ValueError: arguments, data or model are invalid, another process uses the folder, or it holds another trial.
        OSError: data or model cannot be loaded, or a file cannot be written.
    """
    is_first = trial.arguments(folder)[2].process_index == 0 if prepared is None else prepared.is_first
    with claimed(folder) if is_first else nullcontext():
        metrics = result_of(trial, folder) if prepared is None else None
        if metrics is not None:
            return metrics
        try:
            prepared = prepared or prepare_trial(trial, folder)
            if set_up is not None:
                set_up(prepared.run)
            metrics = prepared.run.execute()
            if prepared.writes:
                # The file has metrics from before an interruption.
                metrics = read_json(folder / "all_results.json") | metrics
                write_results(folder / RESULT, {"settings": trial.settings, "metrics": metrics})
            return metrics
        finally:
            prepared = None
            free_memory()


def result_of(trial: Trial, folder: Path) -> dict[str, Any] | None:
    """Return the metrics of a trial; None if the trial is not finished.

    Raises:
        ValueError: the folder holds the results of another trial, or an invalid result file.
    """
    path = folder / RESULT
    if not path.is_file():
        return None
    known = read_json(path)
    check_same_settings(path, entry(known, "settings", dict, path), trial.settings, "results of another trial")
    return with_nan(entry(known, "metrics", dict, path))


def with_nan(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Replace None by NaN in metrics from JSON. NaN is written as null."""
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def prepare_trial(trial: Trial, folder: Path) -> Prepared:
    """Load the data and model of a trial, check the arguments, and build the trainer.

    The run resumes from the last checkpoint in the folder. If the run was killed before its first checkpoint, its
    files are removed.

    Args:
        trial: the trial.
        folder: its folder.

    Raises:
        ValueError, OSError: arguments, data or model are invalid or cannot be loaded.
    """
    model_args, data_args, training_args = trial.arguments(folder)
    training_args.resume_from_checkpoint = None
    training_args.do_train = True
    if (folder / STATE).exists():
        logger.warning("The model in %s is trained, but not evaluated: continuing with the evaluation.", folder)
        training_args.resume_from_checkpoint = str(folder)
    elif folder.is_dir() and training_args.should_save and last_complete_checkpoint(folder) is None:
        if (folder / UNFINISHED).is_file():  # killed before its first checkpoint
            _clear(folder)
        else:
            check_unused(folder, "trial to resume")
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
    """Free the memory of models that are no longer used."""
    gc.collect()  # a trainer and its model refer to each other
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
