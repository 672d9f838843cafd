"""Command of a training script: its arguments, its output folder, and the options of its runs."""

from __future__ import annotations

import copy
import dataclasses
import gc
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hf_localattn import tasks
from hf_localattn.data.folds import Fold
from hf_localattn.names import RUN, SCRIPTS
from hf_localattn.settings.option import GROWS
from hf_localattn.settings.reading import build_arguments
from hf_localattn.settings.recipes import options_of_run
from hf_localattn.settings.stock import all_options
from hf_localattn.studies.processes import ScriptRun
from hf_localattn.tasks import DataArguments, Task
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, argument_classes
from hf_localattn.training.output_folder import arguments_of, check_same_run, check_unused
from hf_localattn.training.prepare import prepare
from hf_localattn.training.run import Started, start


@dataclass
class ScriptCommand:
    """A training command with its arguments: one run, the runs of all folds or seeds, or a search.

    Attributes:
        options: Options that were given, by name.
    """

    task: type[Task]
    model_args: ModelArguments
    data_args: DataArguments
    training_args: TrainingArguments
    options: Mapping[str, Any]

    @classmethod
    def of(cls, script: str, options: Mapping[str, Any]) -> ScriptCommand:
        """Return the command of a script. Unknown options, and values of another type, raise `ValueError`."""
        task = getattr(tasks, SCRIPTS[script])
        completed = options_of_run(script, options)
        model_args, data_args, training_args = build_arguments(argument_classes(task), completed)
        return cls(task, model_args, data_args, training_args, options)

    @property
    def script(self) -> str:
        """Name of the script, which another process can run."""
        for script, task in SCRIPTS.items():
            if task == self.task.__name__:
                return script
        raise ValueError(f"The task {self.task.__name__} cannot run in other processes: it has no script.")

    @property
    def folder(self) -> Path:
        return Path(self.training_args.output_dir)

    def script_run(self, folder: Path, **changes: Any) -> ScriptRun:
        """Return a run of the script with the options of the command, changed for this run."""
        options = all_options(*argument_classes(self.task))
        shared = {name: value for name, value in self.options.items() if options[name].shared}
        return ScriptRun(self.script, {**shared, **changes}, folder)

    def of_fold(self, index: int) -> ScriptCommand:
        """Return the command of one fold, from 1. It trains, evaluates and predicts, with data and seed of its own."""
        data_args = copy.copy(self.data_args)
        training_args = copy.copy(self.training_args)
        seed = training_args.seed if training_args.data_seed is None else training_args.data_seed
        data_args.fold = index
        data_args.held_out = Fold(index, data_args.num_folds or 0, seed)
        training_args.seed += index - 1
        training_args.output_dir = str(self.folder / f"fold-{index}")
        training_args.do_train = True
        training_args.do_eval = True
        training_args.do_predict = True
        return dataclasses.replace(self, data_args=data_args, training_args=training_args)

    def of_seed(self, seed: int) -> ScriptCommand:
        """Return the command of one seed."""
        training_args = copy.copy(self.training_args)
        training_args.seed = seed
        training_args.seeds = []
        training_args.output_dir = str(self.folder / f"seed-{seed}")
        return dataclasses.replace(self, training_args=training_args)

    def start(self) -> Started:
        """Load data and model, check all arguments, and build the trainer."""
        return start(prepare(self.task, self.model_args, self.data_args, self.training_args))

    def check(self) -> TrainingArguments:
        """Start a run to raise errors before the first process starts, and return its training arguments."""
        args = self.start().trainer.args
        gc.collect()  # a trainer and its model refer to each other
        torch.cuda.empty_cache()
        return args

    def check_folder(self, **more: Any) -> dict[str, Any]:
        """Return the arguments that decide the results, with digests of local data and `more`.

        An output folder with another command, or with other files, raises `ValueError`.
        """
        arguments = arguments_of(self.model_args, self.data_args, self.training_args) | more
        for name, option in all_options(*argument_classes(self.task)).items():
            if option.result == GROWS:
                arguments.pop(name, None)
        arguments |= self.digests()
        if self.data_args.fold is None and not (self.folder / RUN).is_file():  # other folds may have begun
            check_unused(self.folder, f"{RUN} to continue")
        check_same_run(self.folder, arguments)
        return arguments

    def digests(self) -> dict[str, str]:
        """Return the digests of local data, by the name of their option."""
        paths = {f"{split}_file": path for split, path in self.data_args.files.items()}
        named = {**paths, "dataset_name": self.data_args.dataset_name}
        return {
            f"{name} content": content_digest(Path(value))
            for name, value in named.items()
            if value is not None and Path(value).exists()
        }


def content_digest(path: Path) -> str:
    """Return the digest of a file, or of all files of a folder."""
    files = [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(path)}\0".encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256 {digest.hexdigest()[:16]}"
