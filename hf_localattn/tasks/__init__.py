"""Tasks: what a run trains, evaluates and predicts. Each has its own module; `TASKS` lists them."""

from __future__ import annotations

from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.multiple_choice import MultipleChoice
from hf_localattn.tasks.negation import NegationScope
from hf_localattn.tasks.question_answering import QuestionAnswering
from hf_localattn.tasks.question_generation import QuestionGeneration
from hf_localattn.tasks.task import Checkpoint, Task
from hf_localattn.tasks.text_classification import TextClassification
from hf_localattn.tasks.token_classification import NEGATION, TokenClassification

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
"""The tasks by name."""


def get_task(name: str) -> type[Task]:
    """Return the task with this name.

    Raises:
        ValueError: there is none.
    """
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}; there are {', '.join(TASKS)}.")
    return TASKS[name]


def choose_task(task: type[Task], args: DataArguments) -> type[Task]:
    """Return the task that data arguments ask for: `task_name="negation"` of labeled words is a task of its own."""
    return NegationScope if task is TokenClassification and getattr(args, "task_name", None) == NEGATION else task


__all__ = [
    "TASKS",
    "Checkpoint",
    "DataArguments",
    "MultipleChoice",
    "NegationScope",
    "QuestionAnswering",
    "QuestionGeneration",
    "Task",
    "TextClassification",
    "TokenClassification",
    "choose_task",
    "get_task",
]
