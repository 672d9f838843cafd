"""Text classification: classes, sets of classes or scores for texts or pairs of texts, such as GLUE."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
from transformers import DataCollatorWithPadding, EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.folds import warn_of_lone_classes
from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.data.rows import Data, row_numbers
from hf_localattn.data.texts import (
    GLUE_TASKS,
    TextColumns,
    format_predictions,
    load_texts,
    number_labels,
    predictions_from_logits,
    tokenize_texts,
)
from hf_localattn.files import atomic_write
from hf_localattn.metrics.classification_scores import GLUE_METRICS, LOWER_IS_BETTER, SCORES
from hf_localattn.tasks.arguments import DataArguments, option
from hf_localattn.tasks.labels import choose_labels, labels_in_config
from hf_localattn.tasks.lengths import check_room, input_length, padding, report_cut
from hf_localattn.tasks.splits import SPLITS, Splits
from hf_localattn.tasks.task import Checkpoint, Task

logger = logging.getLogger(__name__)

GLUE = "nyu-mll/glue"
MNLI_SPLITS = {
    "train": ("train",),
    "validation": ("validation_matched", "validation_mismatched"),
    "test": ("test_matched", "test_mismatched"),
}
METRICS = {
    SINGLE_LABEL: ("accuracy", "macro_f1"),
    MULTI_LABEL: ("micro_f1", "macro_f1", "subset_accuracy"),
    REGRESSION: ("pearson", "spearmanr", "mse", "rmse"),
}
"""Scores by problem type. Two classes also have `f1`, and `--metric_name` can add `matthews_correlation`."""
COMBINED = "combined_score"
COMBINED_METRICS = {task: metrics for task, metrics in GLUE_METRICS.items() if len(metrics) > 1}
"""GLUE tasks with several metrics. The combined score is the mean of these metrics."""


@dataclass
class TextClassificationDataArguments(DataArguments):
    """Data arguments for text classification.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`.
    """

    task_name: str | None = option(
        None, f"GLUE task, from the Hub or from files with its columns: {', '.join(GLUE_TASKS)}."
    )
    text_column_names: str | None = option(
        None, "Column of the texts, or two columns separated by a comma; by default common names are tried."
    )
    label_column_name: str | None = option(None, "Column of the labels; default: label.")
    metric_name: str | None = option(
        None, f"Metric that selects the best model, reported with the usual ones: {', '.join(SCORES)}."
    )
    do_regression: bool | None = option(
        None, "true: labels are scores; false: labels are classes; default: scores if they have a decimal point."
    )

    skip_unlabeled: bool = field(
        default=False,
        metadata={
            "aliases": ["--skip_unlabelled"],
            "help": "Leave out training and evaluation rows without a label instead of raising an error.",
        },
    )

    def __post_init__(self) -> None:
        if self.task_name is not None:
            self.task_name = self.task_name.lower()
            if self.task_name not in GLUE_TASKS:
                raise ValueError(
                    f"--task_name must be one of {', '.join(GLUE_TASKS)}; got {self.task_name!r}."
                    " For other data leave it out, and give --dataset_name or files."
                )
            if self.do_regression is not None:
                raise ValueError("--do_regression cannot be used with --task_name, which sets the labels.")
            if self.dataset_name is None and not (self.train_file or self.validation_file or self.test_file):
                self.dataset_name, self.dataset_config_name = GLUE, self.task_name
        super().__post_init__()
        if len(self.layout.texts) > 2:
            raise ValueError(f"--text_column_names takes one column, or two; got {self.text_column_names!r}.")
        if self.streaming and self.skip_unlabeled:
            raise ValueError("--streaming cannot be used with --skip_unlabeled: leave out such rows in the file.")
        if self.metric_name is not None and self.metric_name not in SCORES:
            raise ValueError(f"--metric_name must be one of {', '.join(SCORES)}; got {self.metric_name!r}.")

    @property
    def layout(self) -> TextColumns:
        """Column names, and the problem type if the arguments determine it."""
        layout = GLUE_TASKS[self.task_name] if self.task_name is not None else TextColumns()
        if self.do_regression is not None:
            layout = replace(layout, problem_type=REGRESSION if self.do_regression else SINGLE_LABEL)
        if self.text_column_names is not None:
            layout = replace(layout, texts=tuple(name.strip() for name in self.text_column_names.split(",")))
        return replace(layout, label=self.label_column_name or layout.label, skip_unlabeled=self.skip_unlabeled)


class TextClassification(Task):
    """Prediction of a class, a set of classes or a score for texts or pairs of texts."""

    name = model_task = "text-classification"
    head = "ForSequenceClassification"
    DataArguments = TextClassificationDataArguments
    metrics = MappingProxyType({name: name not in LOWER_IS_BETTER for name in ("loss", *SCORES, COMBINED)})
    metrics_depend_on_labels = True
    class_column = "label"
    streams = True
    args: TextClassificationDataArguments
    labels: Labels

    def check_training(self, training_args: Any) -> None:
        if self.args.metric_name is not None and training_args.metric_for_best_model in (None, "loss"):
            training_args.metric_for_best_model = self.args.metric_name

    @property
    def hub_splits(self) -> Mapping[str, Sequence[str]]:
        return MNLI_SPLITS if self.args.task_name == "mnli" else SPLITS

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_texts(data, self.args.layout, require_labels=labeled, skip_empty=self.args.skip_empty)

    def config_fields(self, data: Splits, checkpoint: Checkpoint) -> dict[str, Any]:
        self.labels = choose_labels(data, checkpoint, fixed=self.args.layout.names is not None)
        check_same_texts(data)
        warn_of_lone_classes(data, "label", self.args.held_out)
        self.score_names = metric_names(self.labels, self.args)
        self.combined = COMBINED_METRICS.get(self.args.task_name or "", ())
        what = str(self.labels)
        if "f1" in self.score_names:
            what = f"{what.removesuffix(')')}; F1 is of {self.labels.names[1]!r})"
        logger.info("Predicting %s of %s.", what, "pairs of texts" if is_pairs(data) else "texts")
        return labels_in_config(self.labels)

    def number_labels(self, data: Splits) -> Splits:
        return {split: number_labels(rows, self.labels) for split, rows in data.items()}

    @property
    def reported_metrics(self) -> Sequence[str]:
        return ("loss", *([COMBINED] if self.combined else []), *self.score_names)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Splits) -> None:
        self.max_length = input_length(model, tokenizer, self.args)
        check_room(tokenizer, self.max_length, pair=is_pairs(data))

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        return tokenize_texts, {"max_length": self.max_length}

    def finish_features(self, data: Splits, features: Splits) -> Splits:
        report_cut(features, self.max_length)
        return features

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return DataCollatorWithPadding(tokenizer, **padding(self.args, self.max_length, multiple))

    def compute_metrics(self, output: EvalPrediction) -> dict[str, float]:
        """Return the reported scores, and GLUE's combined score for tasks with several metrics."""
        predictions = predictions_from_logits(output.predictions, self.labels.problem_type)
        scores = {name: SCORES[name](predictions, output.label_ids) for name in self.score_names}
        if self.combined:
            scores[COMBINED] = float(np.mean([scores[name] for name in self.combined]))
        return scores

    def example_scores(self, rows: datasets.Dataset, predictions: Any, labels: Any) -> dict[str, Sequence[float]]:
        if labels is None:  # test rows of GLUE
            return {}
        found = predictions_from_logits(predictions, self.labels.problem_type)
        if self.labels.problem_type == REGRESSION:
            squares = (found - labels) ** 2
            return {"mse": squares} if np.isfinite(squares).all() else {}
        if self.labels.problem_type == MULTI_LABEL:
            return {"subset_accuracy": (found == labels).all(axis=-1)}
        return {"accuracy": found == labels}

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Write predict_results.txt; for GLUE predict_results_cola.txt, ..., predict_results_mnli-mm.txt.

        A class is written as its name, a set of classes as a JSON list, a score with three decimals.
        """
        name = "_".join(["predict_results", *filter(None, [self.args.task_name])])
        name += {"test": "", "test_mismatched": "-mm"}.get(split, split.removeprefix("test"))
        texts = format_predictions(output.predictions, self.labels)
        lines = [f"{index}\t{text}\n" for index, text in zip(row_numbers(rows), texts, strict=True)]
        atomic_write(folder / f"{name}.txt", "".join(["index\tprediction\n", *lines]))


def is_pairs(data: Splits) -> bool:
    """Return True if rows have two texts."""
    return any("text_pair" in rows.column_names for rows in data.values())


def check_same_texts(data: Splits) -> None:
    """Raise `ValueError` if some splits have single texts and others pairs."""
    pairs = {split: "text_pair" in rows.column_names for split, rows in data.items()}
    if len(set(pairs.values())) > 1:
        kinds = ", ".join(
            f"{split} has {'pairs of texts' if pair else 'single texts'}" for split, pair in pairs.items()
        )
        raise ValueError(f"The splits do not match: {kinds}; name the columns by --text_column_names.")


def metric_names(labels: Labels, data_args: TextClassificationDataArguments) -> tuple[str, ...]:
    """Return the metrics to report: the metrics of the GLUE task or of the problem type, and `--metric_name`.

    Raises:
        ValueError: `--metric_name` is not defined for these labels.
    """
    usual = METRICS[labels.problem_type]
    possible = usual
    if labels.problem_type == SINGLE_LABEL:
        usual += ("f1",) if labels.num_labels == 2 else ()
        possible = (*usual, "matthews_correlation")
    if data_args.task_name is not None:
        usual = GLUE_METRICS[data_args.task_name]
    own = data_args.metric_name
    if own is not None and own not in possible:
        what = labels.problem_type.replace("_", " ")
        classes = f" of {labels.num_labels} classes" if labels.problem_type == SINGLE_LABEL else ""
        raise ValueError(f"--metric_name {own} is not for {what}{classes}; choose one of {', '.join(possible)}.")
    return usual if own is None or own in usual else (*usual, own)
