"""Text classification: classes, sets of classes or scores for texts or pairs of texts, such as GLUE."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import datasets
import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

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
from hf_localattn.settings.columns import TokenColumns
from hf_localattn.settings.data import GLUE as GLUE
from hf_localattn.settings.data import TextClassificationDataArguments
from hf_localattn.tasks.task import Encoder, Scored, Splits, Task, choose_labels, label_fields, table_of
from hf_localattn.training.arguments import ModelArguments
from hf_localattn.training.calibration import calibrate, expected_calibration_error, last_layer
from hf_localattn.training.class_weights import read_class_weights
from hf_localattn.training.losses import weighted_loss
from hf_localattn.training.trainer import TaskTrainer

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
    DataArguments = TextClassificationDataArguments
    class_column = "label"
    streams = True
    args: TextClassificationDataArguments
    labels: Labels
    temperature: float | None = None
    """Divisor of the trained model's logits; None without `--temperature_scaling`."""

    def __init__(self, args: TextClassificationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        if args.class_weights and not training_args.do_train:
            raise ValueError("--class_weights needs --do_train.")
        if args.temperature_scaling and not (training_args.do_train and training_args.do_eval):
            raise ValueError("--temperature_scaling needs --do_train, and validation rows with --do_eval.")
        if args.temperature_scaling and (
            training_args.prediction_loss_only or training_args.fsdp or training_args.deepspeed
        ):
            raise ValueError("--temperature_scaling excludes --prediction_loss_only, --fsdp and --deepspeed.")
        self.columns = args.layout
        if args.label_names_file is not None:
            names = load_label_names(args.label_names_file, TokenColumns(label=self.columns.name_of("label")))
            self.columns = replace(self.columns, names=tuple(names))

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        source = self.open_for_table(data, "texts and labels", labeled)
        columns = complete_columns(self.columns, source, require_labels=labeled)
        self.columns = replace(self.columns, vector_length=columns.vector_length)
        return load_texts(source, columns, require_labels=labeled, skip_empty=self.args.skip_empty)

    def choose_labels(self, data: Splits, model_args: ModelArguments, config: Any) -> dict[str, Any]:
        labels_by_split = map(labels_of, data.values())
        of_data = next((labels for labels in labels_by_split if labels is not None), None)
        self.labels = choose_labels(
            of_data,
            model_args,
            config,
            trained=self.training_args.do_train,
            fixed=self.columns.names is not None,
        )
        self._check_labels()
        have_pairs = {"text_pair" in rows.column_names for rows in data.values()}
        if len(have_pairs) > 1:
            raise ValueError("Some splits have pairs of texts, others single texts: give --text_column_names.")
        warn_of_lone_classes(data, "label", self.args.held_out)
        self._choose_scores()
        logger.info("Predicting %s of %s.", self.labels, "pairs of texts" if any(have_pairs) else "texts")
        return {**label_fields(self.labels.names), "problem_type": self.labels.problem_type}

    def _choose_scores(self) -> None:
        """Choose the scores that suit the labels. The first one selects the best model."""
        args = self.args
        self.has_classes = self.labels.problem_type == SINGLE_LABEL
        names = REPORTED[self.labels.problem_type]
        if self.has_classes and self.labels.num_labels == 2:
            names = (*names, "f1")
        possible = (*names, *ON_REQUEST) if self.has_classes else names
        if args.metric_name not in (None, *possible):
            raise ValueError(
                f"--metric_name {args.metric_name} is not for {self.labels}; choose one of {', '.join(possible)}."
            )
        first = () if args.metric_name is None else (args.metric_name,)
        self.combined: tuple[str, ...] = ()
        if args.task_name is not None:
            names = GLUE_METRICS.get(args.task_name, names)
            self.combined = names if len(names) > 1 else ()
        self.score_names = tuple(dict.fromkeys((*names, *first)))
        combined = (COMBINED,) if self.combined else ()
        in_order = (*first, "loss", *combined, *self.score_names)
        self.metrics = {name: name not in LOWER_IS_BETTER for name in in_order}

    def _check_labels(self) -> None:
        labels = self.labels
        length = self.columns.vector_length
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

    def prepare_rows(self, data: Splits) -> Splits:
        prepared = Splits()
        for split, rows in data.items():
            check_input_columns(self.args.name_of(split), rows, self.labels.names)
            may_be_missing = split.startswith("test")
            prepared[split] = number_labels(rows, self.labels, may_be_missing=may_be_missing)
        if self.args.class_weights and self.compute_loss is None:  # not again for each part of a stream
            names = self.labels.names
            weights = read_class_weights(self.args.class_weights, names, prepared["train"]["label"][:])
            smoothing = self.training_args.label_smoothing_factor
            self.compute_loss = partial(weighted_loss, weights=weights, label_smoothing=smoothing)
            texts = [f"{name} {weight:.3g}" for name, weight in zip(names, weights, strict=True)]
            logger.info("Class weights: %s.", join_names(texts, 20))
        return prepared

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().adapt(model, tokenizer)
        if self.args.temperature_scaling:
            last_layer(model)

    def finish_model(self, trainer: TaskTrainer) -> dict[str, float]:
        if not self.args.temperature_scaling:
            return {}
        self.temperature = calibrate(trainer, self.features["validation"], self.labels.problem_type)
        return {"temperature": self.temperature}

    def encoder(self, split: str) -> Encoder:
        return tokenize_texts, {"max_length": self.max_length}

    def metric_examples(self) -> tuple[Any, Any]:
        if self.labels.problem_type == REGRESSION:
            values: Any = np.array([0.0, 1.0, 2.0], dtype=np.float32)
        elif self.labels.problem_type == MULTI_LABEL:
            values = np.eye(self.labels.num_labels, dtype=int)
        else:
            values = np.arange(self.labels.num_labels)
        return values, values

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the logits, the reported scores, and GLUE's combined score for tasks with several metrics.

        If some test rows have no label, the scores are those of the others, and `labeled_samples` counts these.
        """
        problem_type = self.labels.problem_type
        logits, labels, scores = self.of_labeled_rows(split, outputs, labels)
        if not len(labels):  # test rows of GLUE
            return Scored(outputs, {})
        predictions = predictions_from_logits(logits, problem_type)
        scores |= {name: SCORES[name](predictions, labels) for name in self.score_names}
        if self.combined:
            scores[COMBINED] = float(np.mean([scores[name] for name in self.combined]))
        if self.temperature is not None:
            uncalibrated = logits * self.temperature
            scores["calibration_error"] = expected_calibration_error(logits, labels, problem_type)
            scores["calibration_error_before"] = expected_calibration_error(uncalibrated, labels, problem_type)
        is_number = problem_type == REGRESSION
        report = None if is_number else class_report(predictions, labels, self.labels.names)
        return Scored(outputs, scores, pair=(predictions, labels), report=report)

    def constant_outputs(self, split: str) -> Any:
        targets = np.asarray(self.features["train"]["label"][:])
        if self.has_classes:
            targets = np.eye(self.labels.num_labels)[targets]
        mean = targets.reshape(len(targets), -1).mean(axis=0)
        if self.labels.problem_type == MULTI_LABEL:
            mean = mean - 0.5  # a class is predicted if its logit is positive
        return np.tile(mean, (len(self.features[split]), 1))

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return predictions.csv, and predict_results.txt (for GLUE predict_results_cola.txt and the like).

        A class is written as its name, a set of classes as a JSON list, a score with three decimals.
        """
        task = "" if self.args.task_name is None else f"_{self.args.task_name}"
        ending = "-mm" if split == "test_mismatched" else ""
        rows = self.rows[split]
        texts = format_predictions(predictions, self.labels)
        shares = probabilities_from_logits(predictions, self.labels.problem_type)
        if self.labels.problem_type == REGRESSION:
            shares = shares[:, :0]
        return {
            f"predict_results{task}{ending}.txt": table_of(rows, texts),
            f"predictions{ending}.csv": prediction_table(rows, self.labels.names, texts, shares),
        }
