"""The tasks of the scripts by their names, so that a trial can name its task."""

from __future__ import annotations

from dataclasses import dataclass

from hf_localattn.training import (
    multiple_choice,
    negation,
    question_answering,
    question_generation,
    text_classification,
    token_classification,
)
from hf_localattn.training.arguments import DataArguments, TrainingArguments
from hf_localattn.training.generation import GenerationTrainingArguments
from hf_localattn.training.run import Prepare


@dataclass(frozen=True)
class Task:
    """A task of the scripts.

    Args:
        data_arguments, training_arguments: the classes of its arguments.
        prepare: makes its runs.
    """

    data_arguments: type[DataArguments]
    prepare: Prepare
    training_arguments: type[TrainingArguments] = TrainingArguments


TASKS = {
    "text-classification": Task(text_classification.TextClassificationDataArguments, text_classification.prepare),
    "token-classification": Task(token_classification.TokenClassificationDataArguments, token_classification.prepare),
    "negation": Task(token_classification.TokenClassificationDataArguments, negation.prepare),
    "question-answering": Task(question_answering.QuestionAnsweringDataArguments, question_answering.prepare),
    "question-generation": Task(
        question_generation.QuestionGenerationDataArguments, question_generation.prepare, GenerationTrainingArguments
    ),
    "multiple-choice": Task(multiple_choice.MultipleChoiceDataArguments, multiple_choice.prepare),
}
"""The tasks by name."""


def get_task(name: str) -> Task:
    """Return a task.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}; choose one of {', '.join(TASKS)}.")
    return TASKS[name]


def name_of(prepare: Prepare) -> str:
    """Return the name of the task that makes its runs by `prepare`."""
    return next(name for name, task in TASKS.items() if task.prepare == prepare)
