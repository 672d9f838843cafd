"""Multiple choice: selection of the right text among several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np

from hf_localattn.data.choices import (
    ChoiceColumns,
    MultipleChoiceCollator,
    choice_features,
    load_choices,
)
from hf_localattn.data.rows import Data
from hf_localattn.metrics.classification_scores import SCORES
from hf_localattn.tasks.task import DataArguments, Scored, Task, write_results
from hf_localattn.training.arguments import documented

SWAG = ("allenai/swag", "regular")
"""Name and configuration of SWAG on the Hub."""


@documented
@dataclass
class MultipleChoiceDataArguments(DataArguments):
    """Data arguments for multiple choice.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`. Rows have a list of choices, or SWAG's columns. Without files and
    data set, SWAG is loaded from the Hub.

    Args:
        context_column_name: Column with the text that the choices refer to or continue.
        question_column_name: Column with the question, if there is one.
        choices_column_name: Column with the lists of choices; not needed for SWAG.
        label_column_name: Column with the right choice: its index, counted from 0, or its letter.
    """

    context_column_name: str = "context"
    question_column_name: str = "question"
    choices_column_name: str = "choices"
    label_column_name: str = "label"

    def __post_init__(self) -> None:
        if self.dataset_name is None and not any(self.files.values()):
            self.dataset_name, self.dataset_config_name = SWAG
        super().__post_init__()


class MultipleChoice(Task):
    """Selection of the right text among several, such as the endings in SWAG."""

    name = model_task = "multiple-choice"
    DataArguments = MultipleChoiceDataArguments
    collator_class = MultipleChoiceCollator
    is_pairs = True
    metrics = MappingProxyType({"loss": False, "accuracy": True})
    args: MultipleChoiceDataArguments

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        args = self.args
        columns = ChoiceColumns(
            args.context_column_name, args.question_column_name, args.choices_column_name, args.label_column_name
        )
        return load_choices(data, columns, require_labels=labeled, skip_empty=args.skip_empty)

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        return choice_features, {"max_length": self.max_length}

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the index of the greatest logit (rows, choices) of each row, and the accuracy."""
        choices = np.argmax(outputs, axis=-1)
        if labels is None:
            return Scored(choices, {})
        scores = {"accuracy": SCORES["accuracy"](choices, labels)}
        return Scored(choices, scores, pair=(choices, labels))

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write predict_results.txt: the index of each row, and the index of the chosen text, both counted from 0."""
        write_results(folder / f"{prefix}_results.txt", self.rows[split], predictions)
