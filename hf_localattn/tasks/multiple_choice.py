"""Multiple choice: selection of the right text among several."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np

from hf_localattn.data.choices import MultipleChoiceCollator, choice_features, load_choices
from hf_localattn.data.labels import SINGLE_LABEL, probabilities_from_logits
from hf_localattn.data.prediction_table import check_input_columns, prediction_table
from hf_localattn.data.rows import Data
from hf_localattn.metrics.classification_scores import SCORES
from hf_localattn.settings.data import MultipleChoiceDataArguments
from hf_localattn.tasks.labels import Head
from hf_localattn.tasks.task import (
    Encoder,
    Encoding,
    Rows,
    Scored,
    Split,
    Target,
    Task,
    labeled_outputs,
    open_for_table,
    prefix_of,
    table_of,
)


class MultipleChoice(Task):
    """Selection of the right text among several, such as the endings in SWAG."""

    name = model_task = "multiple-choice"
    input_columns = ("context", "question", "choices")
    DataArguments = MultipleChoiceDataArguments
    collator_class = MultipleChoiceCollator
    has_lengths = False  # an input is a list of choices
    args: MultipleChoiceDataArguments

    def read(
        self, data: Data, layout: Any = None, *, labeled: bool, predicted: bool = False
    ) -> tuple[datasets.Dataset, Any]:
        source = open_for_table(data, "rows", predicted)
        args = self.args
        return load_choices(source, args.columns, require_labels=labeled, skip_empty=args.skip_empty), None

    def choose_target(self, rows: Rows, layout: Any, head: Head) -> Target:
        examples = np.arange(2)
        return Target({"loss": False, "accuracy": True}, examples=(examples, examples))

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        for name, split in rows.items():
            check_input_columns(self.args.name_of(name), split, range(len(split[0]["choices"])))
        return rows

    def encoder(self, split: str, target: Target, encoding: Encoding) -> Encoder:
        return choice_features, {"max_length": encoding.max_length}

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any = None) -> Scored:
        """Return the logits (rows, choices), and the accuracy of the index of the greatest one.

        If some test rows have no label, the accuracy is that of the others, and `labeled_samples` counts these.
        """
        logits, labels, scores = labeled_outputs(split, outputs)
        if not len(labels):
            return Scored(outputs, {})
        predictions = np.argmax(logits, axis=-1)
        scores |= self.score_pair(predictions, labels, target)
        return Scored(outputs, scores, pair=(predictions, labels))

    def score_pair(self, predictions: Any, references: Any, target: Target) -> dict[str, float]:
        return {"accuracy": SCORES["accuracy"](predictions, references)}

    def constant_outputs(self, split: Split, train: Split, target: Target) -> Any:
        counts = np.bincount(train.features["label"][:], minlength=len(train.features[0]["input_ids"]))
        return np.tile(counts, (len(split.features), 1))

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return predictions.csv, and predict_results.txt with the index of each row and that of the chosen text."""
        choices = np.argmax(predictions, axis=-1).tolist()
        shares = probabilities_from_logits(predictions, SINGLE_LABEL)
        return {
            f"{prefix_of(split.name)}_results.txt": table_of(split.rows, choices),
            "predictions.csv": prediction_table(split.rows, range(shares.shape[1]), choices, shares),
        }
