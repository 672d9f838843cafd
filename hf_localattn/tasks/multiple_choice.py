"""Multiple choice: selection of the right text among several."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import datasets
import numpy as np

from hf_localattn.data.choices import MultipleChoiceCollator, choice_features, load_choices
from hf_localattn.data.labels import SINGLE_LABEL, probabilities_from_logits
from hf_localattn.data.prediction_table import check_input_columns, prediction_table
from hf_localattn.data.rows import Data
from hf_localattn.metrics.classification_scores import SCORES
from hf_localattn.settings.data import MultipleChoiceDataArguments
from hf_localattn.tasks.task import Encoder, Scored, Splits, Task, table_of


class MultipleChoice(Task):
    """Selection of the right text among several, such as the endings in SWAG."""

    name = model_task = "multiple-choice"
    DataArguments = MultipleChoiceDataArguments
    collator_class = MultipleChoiceCollator
    has_lengths = False  # an input is a list of choices
    metrics = MappingProxyType({"loss": False, "accuracy": True})
    args: MultipleChoiceDataArguments

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        source = self.open_for_table(data, "rows", labeled)
        return load_choices(source, self.args.columns, require_labels=labeled, skip_empty=self.args.skip_empty)

    def prepare_rows(self, data: Splits) -> Splits:
        for split, rows in data.items():
            check_input_columns(self.args.name_of(split), rows, range(len(rows[0]["choices"])))
        return data

    def encoder(self, split: str) -> Encoder:
        return choice_features, {"max_length": self.max_length}

    def metric_examples(self) -> tuple[Any, Any]:
        return np.arange(2), np.arange(2)

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the logits (rows, choices), and the accuracy of the index of the greatest one.

        If some test rows have no label, the accuracy is that of the others, and `labeled_samples` counts these.
        """
        logits, labels, scores = self.of_labeled_rows(split, outputs, labels)
        if not len(labels):
            return Scored(outputs, {})
        predictions = np.argmax(logits, axis=-1)
        scores["accuracy"] = SCORES["accuracy"](predictions, labels)
        return Scored(outputs, scores, pair=(predictions, labels))

    def constant_outputs(self, split: str) -> Any:
        train = self.features["train"]
        counts = np.bincount(train["label"][:], minlength=len(train[0]["input_ids"]))
        return np.tile(counts, (len(self.features[split]), 1))

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return predictions.csv, and predict_results.txt with the index of each row and that of the chosen text."""
        rows = self.rows[split]
        choices = np.argmax(predictions, axis=-1).tolist()
        shares = probabilities_from_logits(predictions, SINGLE_LABEL)
        return {
            f"{prefix}_results.txt": table_of(rows, choices),
            "predictions.csv": prediction_table(rows, range(shares.shape[1]), choices, shares),
        }
