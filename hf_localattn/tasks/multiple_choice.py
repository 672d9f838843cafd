"""Multiple choice: selection of the right text among several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.choices import (
    ChoiceColumns,
    MultipleChoiceCollator,
    choice_features,
    load_choices,
)
from hf_localattn.data.rows import Data, row_numbers
from hf_localattn.files import atomic_write
from hf_localattn.metrics.classification_scores import SCORES
from hf_localattn.tasks.arguments import DataArguments, option
from hf_localattn.tasks.lengths import check_room, input_length, padding, report_cut
from hf_localattn.tasks.splits import Splits
from hf_localattn.tasks.task import Task

SWAG = ("allenai/swag", "regular")
"""Name and configuration of SWAG on the Hub."""


@dataclass
class MultipleChoiceDataArguments(DataArguments):
    """Data arguments for multiple choice.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`. Rows have a list of choices, or SWAG's columns. Without files and
    data set, SWAG is loaded from the Hub.
    """

    context_column_name: str = option("context", "Column with the text that the choices refer to or continue.")
    question_column_name: str = option("question", "Column with the question, if there is one.")
    choices_column_name: str = option("choices", "Column with the lists of choices; not needed for SWAG.")
    label_column_name: str = option("label", "Column with the right choice: its index, counted from 0, or its letter.")

    def __post_init__(self) -> None:
        if self.dataset_name is None and not (self.train_file or self.validation_file or self.test_file):
            self.dataset_name, self.dataset_config_name = SWAG
        super().__post_init__()

    @property
    def columns(self) -> ChoiceColumns:
        """Column names."""
        return ChoiceColumns(
            self.context_column_name, self.question_column_name, self.choices_column_name, self.label_column_name
        )


class MultipleChoice(Task):
    """Selection of the right text among several, such as the endings in SWAG."""

    name = model_task = "multiple-choice"
    DataArguments = MultipleChoiceDataArguments
    metrics = MappingProxyType({"loss": False, "accuracy": True})
    args: MultipleChoiceDataArguments

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_choices(data, self.args.columns, require_labels=labeled, skip_empty=self.args.skip_empty)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Splits) -> None:
        self.max_length = input_length(model, tokenizer, self.args)
        check_room(tokenizer, self.max_length, pair=True)

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        return choice_features, {"max_length": self.max_length}

    def finish_features(self, data: Splits, features: Splits) -> Splits:
        report_cut(features, self.max_length)
        return features

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return MultipleChoiceCollator(tokenizer, **padding(self.args, self.max_length, multiple))

    def compute_metrics(self, output: EvalPrediction) -> dict[str, float]:
        """Return the accuracy: the share of rows in which the right choice has the greatest logit."""
        return {"accuracy": SCORES["accuracy"](np.argmax(output.predictions, axis=-1), output.label_ids)}

    def example_scores(self, rows: datasets.Dataset, predictions: Any, labels: Any) -> dict[str, Sequence[float]]:
        if labels is None:
            return {}
        return {"accuracy": np.argmax(predictions, axis=-1) == labels}

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Write predict_results.txt: the index of each row, and the index of the chosen text, both counted from 0."""
        choices = output.predictions.argmax(axis=-1)
        lines = [f"{index}\t{choice}\n" for index, choice in zip(row_numbers(rows), choices, strict=True)]
        atomic_write(folder / f"{prefix}_results.txt", "".join(["index\tprediction\n", *lines]))
