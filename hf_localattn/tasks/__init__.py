"""Tasks that models can be trained and evaluated on: one module per task, listed in `TASKS`."""

from __future__ import annotations

from hf_localattn.extras import require

require("train", __name__)

from hf_localattn.settings.data import NEGATION, TokenClassificationDataArguments
from hf_localattn.tasks.labels import Head
from hf_localattn.tasks.multiple_choice import MultipleChoice
from hf_localattn.tasks.negation import NegationDetection, NegationScope
from hf_localattn.tasks.question_answering import QuestionAnswering
from hf_localattn.tasks.question_generation import QuestionGeneration
from hf_localattn.tasks.task import DataArguments, Encoding, Scored, Split, Target, Task
from hf_localattn.tasks.text_classification import TextClassification
from hf_localattn.tasks.token_classification import TokenClassification

_TASKS = QuestionAnswering, TextClassification, TokenClassification, NegationScope, MultipleChoice, QuestionGeneration

TASKS: dict[str, type[Task]] = {task.name: task for task in _TASKS}
"""Task classes by name."""

__all__ = [
    "TASKS",
    "DataArguments",
    "Encoding",
    "Head",
    "MultipleChoice",
    "NegationDetection",
    "NegationScope",
    "QuestionAnswering",
    "QuestionGeneration",
    "Scored",
    "Split",
    "Target",
    "Task",
    "TextClassification",
    "TokenClassification",
    "choose_task",
]


def choose_task(task: type[Task], args: DataArguments) -> type[Task]:
    """Return the task class for these arguments.

    Token classification with `--task negation` is `NegationScope`, or `NegationDetection` with `--detect_cues`.
    """
    if not (task is TokenClassification and isinstance(args, TokenClassificationDataArguments)):
        return task
    if args.task_name != NEGATION:
        return task
    return NegationDetection if args.corpus.all_sentences else NegationScope
