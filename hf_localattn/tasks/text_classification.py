"""Text classification: classes, sets of classes or scores for texts or pairs of texts, such as GLUE."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import datasets
import numpy as np
from transformers import TrainingArguments

from hf_localattn.data.folds import warn_of_lone_classes
from hf_localattn.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    format_predictions,
    labels_of,
    number_labels,
    predictions_from_logits,
    probabilities_from_logits,
)
from hf_localattn.data.prediction_table import check_input_columns, prediction_table
from hf_localattn.data.rows import Data
from hf_localattn.data.texts import complete_columns, load_texts, tokenize_texts
from hf_localattn.data.words import load_label_names
from hf_localattn.errors import join_names
from hf_localattn.metrics.class_report import class_report
from hf_localattn.metrics.classification_scores import GLUE_METRICS, LOWER_IS_BETTER, SCORES
from hf_localattn.settings.columns import TextColumns, TokenColumns
from hf_localattn.settings.data import TextClassificationDataArguments
from hf_localattn.tasks.class_weights import read_class_weights, weighted_loss
from hf_localattn.tasks.labels import Head, choose_labels, label_fields
from hf_localattn.tasks.task import (
    Encoder,
    Encoding,
    Loss,
    Rows,
    Scored,
    Split,
    Target,
    Task,
    labeled_outputs,
    open_for_table,
    table_of,
)

logger = logging.getLogger(__name__)

REPORTED = {
    SINGLE_LABEL: ("accuracy", "macro_f1"),
    MULTI_LABEL: ("micro_f1", "macro_f1", "subset_accuracy"),
    REGRESSION: ("pearson", "spearmanr", "mse", "rmse"),
}
"""Names of the scores that are always reported, by problem type. Two classes also have `f1`."""
ON_REQUEST = ("matthews_correlation",)
"""Names of further scores of classes, which `--metric_name` adds."""
COMBINED = "combined_score"
"""The mean of the metrics of a GLUE task with several metrics."""


class TextClassification(Task):
    """Prediction of a class, a set of classes or a score for texts or pairs of texts.

    All splits are read as the first one with labels: lists of 0 and 1 are vectors in all of them, or in none.
    """

    name = model_task = "text-classification"
    input_columns = ("text", "text_pair")
    DataArguments = TextClassificationDataArguments
    class_column = "label"
    streams = True
    args: TextClassificationDataArguments

    def check(self, training_args: TrainingArguments) -> None:
        args = self.args
        if args.class_weights and not training_args.do_train:
            raise ValueError("--class_weights needs --do_train.")
        if args.temperature_scaling and not (training_args.do_train and training_args.do_eval):
            raise ValueError("--temperature_scaling needs --do_train, and validation rows with --do_eval.")
        if args.temperature_scaling and (
            training_args.prediction_loss_only or training_args.fsdp or training_args.deepspeed
        ):
            raise ValueError("--temperature_scaling excludes --prediction_loss_only, --fsdp and --deepspeed.")

    @property
    def layout(self) -> TextColumns:
        columns = self.args.layout
        if self.args.label_names_file is None:
            return columns
        names = load_label_names(self.args.label_names_file, TokenColumns(label=columns.name_of("label")))
        return replace(columns, names=tuple(names))

    def read(
        self, data: Data, layout: TextColumns, *, labeled: bool, predicted: bool = False
    ) -> tuple[datasets.Dataset, TextColumns]:
        source = open_for_table(data, "texts and labels", predicted)
        columns = complete_columns(layout, source, require_labels=labeled)
        rows = load_texts(source, columns, require_labels=labeled, skip_empty=self.args.skip_empty)
        return rows, replace(layout, vector_length=columns.vector_length)

    def choose_target(self, rows: Rows, layout: TextColumns, head: Head) -> Target:
        of_splits = map(labels_of, rows.values())
        of_data = next((labels for labels in of_splits if labels is not None), None)
        labels = choose_labels(of_data, head, fixed=layout.names is not None)
        self._check_labels(labels, layout.vector_length)
        have_pairs = {"text_pair" in split.column_names for split in rows.values()}
        if len(have_pairs) > 1:
            raise ValueError("Some splits have pairs of texts, others single texts: give --text_column_names.")
        warn_of_lone_classes(rows, "label", self.args.held_out)
        metrics = self._metrics(labels)
        logger.info("Predicting %s of %s.", labels, "pairs of texts" if any(have_pairs) else "texts")
        examples = _metric_examples(labels)
        return Target(
            metrics,
            labels,
            {**label_fields(labels.names), "problem_type": labels.problem_type},
            examples=(examples, examples),
            has_classes=labels.problem_type == SINGLE_LABEL,
        )

    def _metrics(self, labels: Labels) -> dict[str, bool]:
        """Return the scores that suit the labels. The first one selects the best model."""
        wanted = self.args.metric_name
        usual = _usual_scores(labels)
        possible = (*usual, *ON_REQUEST) if labels.problem_type == SINGLE_LABEL else usual
        if wanted not in (None, *possible):
            raise ValueError(f"--metric_name {wanted} is not for {labels}; choose one of {', '.join(possible)}.")
        first = () if wanted is None else (wanted,)
        combined = (COMBINED,) if self._combined() else ()
        in_order = (*first, "loss", *combined, *self._score_names(labels))
        return {name: name not in LOWER_IS_BETTER for name in in_order}

    def _score_names(self, labels: Labels) -> tuple[str, ...]:
        """Return the reported scores: those of GLUE's task or of the labels, then that of `--metric_name`."""
        names = GLUE_METRICS[self.args.task_name] if self.args.task_name is not None else _usual_scores(labels)
        wanted = () if self.args.metric_name is None else (self.args.metric_name,)
        return tuple(dict.fromkeys((*names, *wanted)))

    def _combined(self) -> tuple[str, ...]:
        """Return the scores whose mean GLUE's combined score is: those of a task with several."""
        names = () if self.args.task_name is None else GLUE_METRICS[self.args.task_name]
        return names if len(names) > 1 else ()

    def _check_labels(self, labels: Labels, length: int | None) -> None:
        if self.args.class_weights and labels.problem_type != SINGLE_LABEL:
            raise ValueError(f"--class_weights needs one class as the label of each text, not {labels}.")
        if self.args.temperature_scaling and labels.problem_type == REGRESSION:
            raise ValueError("--temperature_scaling needs classes, but the labels are scores: omit it.")
        if labels.problem_type == SINGLE_LABEL and labels.num_labels < 2:
            raise ValueError(f"All rows have the label {labels.names[0]!r}: give data with at least two classes.")
        if labels.num_labels == 0:
            raise ValueError("All rows have an empty list of classes: give data with at least one class.")
        if labels.problem_type == MULTI_LABEL and length and length != labels.num_labels:
            raise ValueError(
                f"The labels are lists of {length} numbers 0 or 1, but the model predicts {labels}; give lists of"
                f" {labels.num_labels}."
            )

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        assert target.labels is not None
        prepared = Rows()
        for name, split in rows.items():
            check_input_columns(self.args.name_of(name), split, target.names)
            prepared[name] = number_labels(split, target.labels, may_be_missing=name.startswith("test"))
        return prepared

    def choose_loss(self, rows: Rows, target: Target, label_smoothing: float) -> Loss | None:
        if not self.args.class_weights:
            return None
        weights = read_class_weights(self.args.class_weights, target.names, rows["train"]["label"][:])
        texts = [f"{name} {weight:.3g}" for name, weight in zip(target.names, weights, strict=True)]
        logger.info("Class weights: %s.", join_names(texts, 20))
        return partial(weighted_loss, weights=weights, label_smoothing=label_smoothing)

    @property
    def is_calibrated(self) -> bool:
        return self.args.temperature_scaling

    def encoder(self, split: str, target: Target, encoding: Encoding) -> Encoder:
        return tokenize_texts, {"max_length": encoding.max_length}

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any = None) -> Scored:
        """Return the logits, the reported scores, and GLUE's combined score for tasks with several metrics.

        If some test rows have no label, the scores are those of the others, and `labeled_samples` counts these.
        """
        assert target.labels is not None
        problem_type = target.labels.problem_type
        logits, labels, scores = labeled_outputs(split, outputs)
        if not len(labels):  # test rows of GLUE
            return Scored(outputs, {})
        predictions = predictions_from_logits(logits, problem_type)
        scores |= self.score_pair(predictions, labels, target)
        is_number = problem_type == REGRESSION
        report = None if is_number else class_report(predictions, labels, target.labels.names)
        return Scored(outputs, scores, pair=(predictions, labels), report=report)

    def score_pair(self, predictions: Any, references: Any, target: Target) -> dict[str, float]:
        assert target.labels is not None
        scores = {name: SCORES[name](predictions, references) for name in self._score_names(target.labels)}
        if combined := self._combined():
            scores[COMBINED] = float(np.mean([scores[name] for name in combined]))
        return scores

    def constant_outputs(self, split: Split, train: Split, target: Target) -> Any:
        assert target.labels is not None
        targets = np.asarray(train.features["label"][:])
        if target.has_classes:
            targets = np.eye(target.labels.num_labels)[targets]
        mean = targets.reshape(len(targets), -1).mean(axis=0)
        if target.labels.problem_type == MULTI_LABEL:
            mean = mean - 0.5  # a class is predicted if its logit is positive
        return np.tile(mean, (len(split.features), 1))

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return predictions.csv, and predict_results.txt (for GLUE predict_results_cola.txt and the like).

        A class is written as its name, a set of classes as a JSON list, a score with three decimals.
        """
        assert target.labels is not None
        task = "" if self.args.task_name is None else f"_{self.args.task_name}"
        ending = "-mm" if split.name == "test_mismatched" else ""
        texts = format_predictions(predictions, target.labels)
        shares = probabilities_from_logits(predictions, target.labels.problem_type)
        if target.labels.problem_type == REGRESSION:
            shares = shares[:, :0]
        return {
            f"predict_results{task}{ending}.txt": table_of(split.rows, texts),
            f"predictions{ending}.csv": prediction_table(split.rows, target.labels.names, texts, shares),
        }


def _usual_scores(labels: Labels) -> tuple[str, ...]:
    """Return the names of the scores that are always reported."""
    names = REPORTED[labels.problem_type]
    return (*names, "f1") if labels.problem_type == SINGLE_LABEL and labels.num_labels == 2 else names


def _metric_examples(labels: Labels) -> np.ndarray:
    """Return predictions that have all labels."""
    if labels.problem_type == REGRESSION:
        return np.array([0.0, 1.0, 2.0], dtype=np.float32)
    if labels.problem_type == MULTI_LABEL:
        return np.eye(labels.num_labels, dtype=int)
    return np.arange(labels.num_labels)
