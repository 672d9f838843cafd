"""Tasks that models can be trained and evaluated on: one module per task, listed in `TASKS`."""

from __future__ import annotations

from hf_localattn.extras import require

require("train", __name__)

from hf_localattn.tasks.multiple_choice import MultipleChoice
from hf_localattn.tasks.negation import NegationDetection, NegationScope
from hf_localattn.tasks.question_answering import QuestionAnswering
from hf_localattn.tasks.question_generation import QuestionGeneration
from hf_localattn.tasks.run import Run, choose_task, prepare_run
from hf_localattn.tasks.task import DataArguments, Scored, Task
from hf_localattn.tasks.text_classification import TextClassification
from hf_localattn.tasks.token_classification import TokenClassification

_TASKS = QuestionAnswering, TextClassification, TokenClassification, NegationScope, MultipleChoice, QuestionGeneration

TASKS: dict[str, type[Task]] = {task.name: task for task in _TASKS}
"""Task classes by name."""

__all__ = [
    "TASKS",
    "DataArguments",
    "MultipleChoice",
    "NegationDetection",
    "NegationScope",
    "QuestionAnswering",
    "QuestionGeneration",
    "Run",
    "Scored",
    "Task",
    "TextClassification",
    "TokenClassification",
    "choose_task",
    "prepare_run",
]
