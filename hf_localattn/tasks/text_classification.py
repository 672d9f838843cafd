"""Text classification: classes, sets of classes or scores for texts or pairs of texts, such as GLUE."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from transformers import PreTrainedConfig

from hf_localattn.data.folds import warn_of_lone_classes
from hf_localattn.data.rows import Data
from hf_localattn.data.texts import (
    GLUE_TASKS,
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    TextColumns,
    format_predictions,
    labels_of,
    load_texts,
    number_labels,
    predictions_from_logits,
    tokenize_texts,
)
from hf_localattn.metrics.classification_scores import GLUE_METRICS, LOWER_IS_BETTER, SCORES
from hf_localattn.tasks.labels import choose_labels, label_fields
from hf_localattn.tasks.task import (
    SPLITS,
    DataArguments,
    Scored,
    Splits,
    Task,
    write_results,
)
from hf_localattn.training.arguments import ModelArguments, documented

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


@documented
@dataclass
class TextClassificationDataArguments(DataArguments):
    """Data arguments for text classification.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`.

    Args:
        task_name: GLUE task, from the Hub or from files with its columns: cola, mnli, mrpc, qnli, qqp, rte, sst2,
            stsb, wnli.
        text_column_names: Column of the texts, or two columns separated by a comma; by default common names are tried.
        label_column_name: Column of the labels; default: label.
        metric_name: Metric that selects the best model, reported with the usual ones: accuracy, f1, macro_f1,
            micro_f1, subset_accuracy, matthews_correlation, pearson, spearmanr, mse, rmse.
        do_regression: true: labels are scores; false: labels are classes; default: scores if they have a decimal
            point.
        skip_unlabeled: Leave out training and evaluation rows without a label instead of raising an error.
    """

    task_name: str | None = None
    text_column_names: str | None = None
    label_column_name: str | None = None
    metric_name: str | None = None
    do_regression: bool | None = None
    skip_unlabeled: bool = field(default=False, metadata={"aliases": ["--skip_unlabelled"]})

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
            if self.dataset_name is None and not any(self.files.values()):
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
    DataArguments = TextClassificationDataArguments
    class_column = "label"
    streams = True
    args: TextClassificationDataArguments
    labels: Labels

    def __init__(self, args: TextClassificationDataArguments, training_args: Any):
        super().__init__(args, training_args)
        self.best_metric = args.metric_name
        self.hub_splits = MNLI_SPLITS if args.task_name == "mnli" else SPLITS

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_texts(data, self.args.layout, require_labels=labeled, skip_empty=self.args.skip_empty)

    def choose_labels(
        self, data: Splits, model_args: ModelArguments, config: PreTrainedConfig | None
    ) -> dict[str, Any]:
        args = self.args
        own = next((labels for rows in data.values() if (labels := labels_of(rows)) is not None), None)
        trained, fixed = self.training_args.do_train, args.layout.names is not None
        self.labels = choose_labels(own, model_args, config, trained=trained, fixed=fixed)
        if self.labels.problem_type == SINGLE_LABEL and self.labels.num_labels < 2:
            raise ValueError(f"All rows have the label {self.labels.names[0]!r}: give data with at least two classes.")
        pairs = {split: "text_pair" in rows.column_names for split, rows in data.items()}
        if len(set(pairs.values())) > 1:
            kinds = (f"{split} has {'pairs of texts' if pair else 'single texts'}" for split, pair in pairs.items())
            raise ValueError(f"The splits do not match: {', '.join(kinds)}; name the columns by --text_column_names.")
        self.is_pairs = any(pairs.values())
        warn_of_lone_classes(data, "label", args.held_out)
        self.score_names = metric_names(self.labels, args)
        self.combined = COMBINED_METRICS.get(args.task_name or "", ())
        names = ("loss", *([COMBINED] if self.combined else []), *self.score_names)
        self.metrics = {name: name not in LOWER_IS_BETTER for name in names}
        what = str(self.labels)
        if "f1" in self.score_names:
            what = f"{what.removesuffix(')')}; F1 is of {self.labels.names[1]!r})"
        logger.info("Predicting %s of %s.", what, "pairs of texts" if self.is_pairs else "texts")
        return {**label_fields(self.labels.names), "problem_type": self.labels.problem_type}

    def prepare_rows(self, data: Splits) -> Splits:
        return {split: number_labels(rows, self.labels) for split, rows in data.items()}

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        return tokenize_texts, {"max_length": self.max_length}

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the logits, the reported scores, and GLUE's combined score for tasks with several metrics."""
        if labels is None:  # test rows of GLUE
            return Scored(outputs, {})
        found = predictions_from_logits(outputs, self.labels.problem_type)
        scores = {name: SCORES[name](found, labels) for name in self.score_names}
        if self.combined:
            scores[COMBINED] = float(np.mean([scores[name] for name in self.combined]))
        return Scored(outputs, scores, pair=(found, labels))

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write predict_results.txt; for GLUE predict_results_cola.txt, ..., predict_results_mnli-mm.txt.

        A class is written as its name, a set of classes as a JSON list, a score with three decimals.
        """
        name = "_".join(["predict_results", *filter(None, [self.args.task_name])])
        name += {"test": "", "test_mismatched": "-mm"}.get(split, split.removeprefix("test"))
        write_results(folder / f"{name}.txt", self.rows[split], format_predictions(predictions, self.labels))


def metric_names(labels: Labels, data_args: TextClassificationDataArguments) -> tuple[str, ...]:
    """Return the metrics to report: the metrics of the GLUE task or of the problem type, and `--metric_name`."""
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
