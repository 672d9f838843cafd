"""Tasks that models can be trained and evaluated on: one module per task, listed in `TASKS`."""

from __future__ import annotations

import difflib
import logging

from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.multiple_choice import MultipleChoice
from hf_localattn.tasks.negation import NegationScope
from hf_localattn.tasks.negation_detection import NegationDetection
from hf_localattn.tasks.question_answering import QuestionAnswering
from hf_localattn.tasks.question_generation import QuestionGeneration
from hf_localattn.tasks.task import Checkpoint, Task
from hf_localattn.tasks.text_classification import TextClassification
from hf_localattn.tasks.token_classification import NEGATION, TokenClassification

logger = logging.getLogger(__name__)

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        QuestionAnswering,
        TextClassification,
        TokenClassification,
        NegationScope,
        MultipleChoice,
        QuestionGeneration,
    )
}
"""Task classes by name."""


def get_task(name: str) -> type[Task]:
    """Return the task class with this name.

    Raises:
        ValueError: there is no task with this name.

    Example:
        >>> get_task("multiple-choice").__name__
        'MultipleChoice'
    """
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}; choose one of {', '.join(TASKS)}.")
    return TASKS[name]


def choose_task(task: type[Task], args: DataArguments) -> type[Task]:
    """Return the task class for these arguments.

    Token classification with `--task negation` is `NegationScope`, or `NegationDetection` with `--detect_cues`.
    """
    name = getattr(args, "task_name", None)
    if task is not TokenClassification or name is None:
        return task
    if name != NEGATION and difflib.get_close_matches(name, [NEGATION], cutoff=0.8):
        logger.warning("--task %s labels words. To find the scopes of negation cues, use --task %s.", name, NEGATION)
    if name != NEGATION:
        return task
    return NegationDetection if getattr(args, "detect_cues", False) else NegationScope


__all__ = [
    "TASKS",
    "Checkpoint",
    "DataArguments",
    "MultipleChoice",
    "NegationDetection",
    "NegationScope",
    "QuestionAnswering",
    "QuestionGeneration",
    "Task",
    "TextClassification",
    "TokenClassification",
    "choose_task",
    "get_task",
]
