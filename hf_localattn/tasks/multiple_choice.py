"""Multiple choice: selection of the right text among several."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import datasets
import numpy as np

from hf_localattn.data.choices import ChoiceColumns, MultipleChoiceCollator, choice_features, load_choices
from hf_localattn.data.rows import Data, labeled_rows
from hf_localattn.metrics.classification_scores import SCORES
from hf_localattn.tasks.task import Encoder, Scored, Task, table_of
from hf_localattn.training.data_arguments import MultipleChoiceDataArguments


class MultipleChoice(Task):
    """Selection of the right text among several, such as the endings in SWAG."""

    name = model_task = "multiple-choice"
    DataArguments = MultipleChoiceDataArguments
    collator_class = MultipleChoiceCollator
    has_lengths = False  # an input is a list of choices
    metrics = MappingProxyType({"loss": False, "accuracy": True})
    args: MultipleChoiceDataArguments

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        args = self.args
        columns = ChoiceColumns(
            context=args.context_column_name,
            question=args.question_column_name,
            choices=args.choices_column_name,
            label=args.label_column_name,
        )
        return load_choices(data, columns, require_labels=labeled, skip_empty=args.skip_empty)

    def encoder(self, split: str) -> Encoder:
        return choice_features, {"max_length": self.max_length}

    def metric_examples(self) -> tuple[Any, Any]:
        return np.arange(2), np.arange(2)

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the index of the greatest logit (rows, choices) of each row, and the accuracy.

        If some test rows have no label, the accuracy is that of the others, and `labeled_samples` counts these.
        """
        choices = np.argmax(outputs, axis=-1)
        predictions = choices
        scores: dict[str, float] = {}
        if labels is None:
            labeled, known_labels = labeled_rows(self.rows[split], split)
            if not labeled:
                return Scored(choices, {})
            predictions = choices[labeled]
            labels = np.asarray(known_labels)
            scores["labeled_samples"] = len(labeled)
        scores["accuracy"] = SCORES["accuracy"](predictions, labels)
        return Scored(choices, scores, pair=(predictions, labels))

    def constant_outputs(self, split: str) -> Any:
        train = self.features["train"]
        counts = np.bincount(train["label"][:], minlength=len(train[0]["input_ids"]))
        return np.tile(counts, (len(self.features[split]), 1))

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return predict_results.txt: the index of each row, and that of the chosen text, both counted from 0."""
        return {f"{prefix}_results.txt": table_of(self.rows[split], predictions)}
