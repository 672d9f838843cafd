"""The training scripts as a recipe names them, with their arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

from hf_localattn.tasks import (
    MultipleChoice,
    QuestionAnswering,
    QuestionGeneration,
    Task,
    TextClassification,
    TokenClassification,
    choose_task,
)
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.command import training_arguments_of
from hf_localattn.training.run import Prepare, prepare_run

Arguments = tuple[ModelArguments, Any, TrainingArguments]

SCRIPTS: dict[str, type[Task]] = {
    "run_glue": TextClassification,
    "run_ner": TokenClassification,
    "run_qa": QuestionAnswering,
    "run_qg": QuestionGeneration,
    "run_swag": MultipleChoice,
}
"""The task of each script at the root of the repository."""

QUIET = ("--disable_tqdm", "true", "--log_level", "error", "--report_to", "none")
"""Arguments of a run among many."""


def parse(script: str, words: Sequence[str]) -> Arguments:
    """Return the model, data and training arguments of a script's command line.

    Raises:
        ValueError: an unknown option, or impossible values.
    """
    task = SCRIPTS[script]
    return parse_arguments((ModelArguments, task.DataArguments, training_arguments_of(task)), words)


def preparer(script: str, data_args: Any) -> Prepare:
    """Return the function that prepares the runs of a script with these data arguments."""
    return partial(prepare_run, choose_task(SCRIPTS[script], data_args))


def argument_names() -> set[str]:
    """Return the names of the scripts' arguments for data and training."""
    classes = [own for task in SCRIPTS.values() for own in (task.DataArguments, training_arguments_of(task))]
    return {field.name for own in classes for field in dataclasses.fields(own) if field.init}
