"""A command with many runs of a script: its arguments, its output folder, and the options of its runs."""

from __future__ import annotations

import copy
import dataclasses
import gc
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import HfArgumentParser

from hf_localattn.data.folds import Fold
from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json
from hf_localattn.studies.processes import ScriptRun
from hf_localattn.tasks import TASKS, DataArguments, Run, Task, prepare_run
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.output_folder import RUN, arguments_of, check_same_run, check_unused, save_run

OF_THE_STUDY = ("workers", "ray_address", "search_space", "search_trials", "token", "hub_token")
"""Options that the runs of a study do not get. A token is passed on in the environment."""

MAY_GROW = ("search_trials", "fold", "held_out")
"""Arguments that may differ when a study is continued."""


@dataclass
class Study:
    """A command with its arguments.

    Attributes:
        task: one of `hf_localattn.tasks.TASKS`.
        model_args: the model.
        data_args: the data.
        training_args: the training arguments.
        options: the options that were given, by name.
    """

    task: type[Task]
    model_args: ModelArguments
    data_args: DataArguments
    training_args: TrainingArguments
    options: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The output folder."""
        return Path(self.training_args.output_dir)

    def run(self, folder: Path, **changes: Any) -> ScriptRun:
        """Return a run of the script with the options of the command, changed for this run."""
        if TASKS.get(self.task.name) is not self.task:
            raise ValueError(f"The task {self.task.__name__} cannot run in other processes: it is not in `TASKS`.")
        options = {name: value for name, value in self.options.items() if name not in OF_THE_STUDY}
        return ScriptRun(self.task.name, {**options, **changes}, folder)

    def of_fold(self, number: int) -> Study:
        """Return the command of one fold: its data, folder and seed. It trains, evaluates and predicts."""
        data_args, training_args = copy.copy(self.data_args), copy.copy(self.training_args)
        assert data_args.num_folds is not None
        partition = training_args.seed if training_args.data_seed is None else training_args.data_seed
        data_args.held_out = Fold(number, data_args.num_folds, partition)
        training_args.seed += number - 1
        training_args.output_dir = str(self.folder / f"fold-{number}")
        training_args.do_train = training_args.do_eval = training_args.do_predict = True
        return dataclasses.replace(self, data_args=data_args, training_args=training_args)

    def prepare(self) -> Run:
        """Load data and model, and check all arguments."""
        return prepare_run(self.task, self.model_args, self.data_args, self.training_args)

    def check(self) -> tuple[str | None, bool | None]:
        """Prepare a run to raise errors before the first process starts, and free its memory.

        Returns:
            The metric of the best model, and True if greater is better.
        """
        args = self.prepare().trainer.args
        gc.collect()  # a trainer and its model refer to each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return args.metric_for_best_model, args.greater_is_better

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Return the arguments that decide the results, with digests of local data and `more`."""
        found = arguments_of(self.model_args, self.data_args, self.training_args) | more
        for name in ("train_file", "validation_file", "test_file", "dataset_name"):
            if (value := getattr(self.data_args, name)) is not None and Path(value).exists():
                found[f"{name} content"] = content_digest(Path(value))
        return {name: value for name, value in found.items() if name not in MAY_GROW}

    def check_folder(self, arguments: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the output folder holds another command, or other files."""
        if self.data_args.fold is None and not (self.folder / RUN).is_file():  # other folds may have begun
            check_unused(self.folder, f"{RUN} to continue")
        check_same_run(self.folder, arguments)

    def save(self, arguments: Mapping[str, Any]) -> None:
        """Write the arguments to the output folder, by which a repeated command is compared with this one."""
        if self.training_args.should_save:
            save_run(self.folder, arguments)


def given_options(classes: Sequence[type], words: Sequence[str]) -> dict[str, Any]:
    """Return the options on a command line, or in the .json file that it names, that differ from their defaults."""
    if len(words) == 1 and words[0].endswith(".json"):
        return read_json(Path(words[0]))
    parser = HfArgumentParser(classes)
    return {name: value for name, value in vars(parser.parse_args(words)).items() if value != parser.get_default(name)}


def content_digest(path: Path) -> str:
    """Return the digest of a file, or of all files of a folder."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path)}\0".encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256 {digest.hexdigest()[:16]}"


def write_results(path: Path, found: Mapping[str, Any]) -> None:
    """Write results as JSON. NaN and infinities become null, because JSON does not have them."""
    atomic_write(path, json.dumps(_without_nan(found), indent=2, ensure_ascii=False, default=str) + "\n")


def _without_nan(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _without_nan(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_without_nan(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
