"""Base class of tasks, and the data arguments that all tasks share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import datasets
import numpy as np
import torch
from transformers import DataCollatorWithPadding, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.labels import REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.data.rows import LABELED, Data, Source, labeled_rows, open_source, row_indices
from hf_localattn.families import family_of
from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.settings.data import DataArguments as DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.trainer import TaskTrainer

logger = logging.getLogger(__name__)

Splits = dict[str, datasets.Dataset]
"""Rows or features by split: "train", "validation", "test", and further ones such as "test_mismatched"."""

Encoder = tuple[Callable[..., Any], dict[str, Any]]
"""Function that turns a batch of rows into features, and its keyword arguments."""

PARTS = {"train": "train", "validation": "eval", "test": "predict"}
"""Parts of the data, and their names in options and metrics."""

LIMITS = {part: f"max_{prefix}_samples" for part, prefix in PARTS.items()}
"""Name of the argument that limits the rows of each part."""


def prefix_of(split: str) -> str:
    """Return the prefix of the metrics of a split: "eval_mismatched" of "validation_mismatched"."""
    part, separator, suffix = split.partition("_")
    return PARTS[part] + separator + suffix


@dataclass(frozen=True)
class Scored:
    """Result of an evaluation.

    Args:
        predictions: Predictions for the rows of a split.
        scores: Scores by name; empty if the rows have no labels.
        notes (*optional*): Texts that belong to the scores, such as `bleu_signature`.
        pair (*optional*): Predictions and references in the form that `--metric` takes.
        report (*optional*): Result of `hf_localattn.metrics.class_report`.
    """

    predictions: Any
    scores: dict[str, float]
    notes: Mapping[str, str] = field(default_factory=dict)
    pair: tuple[Any, Any] | None = None
    report: dict[str, Any] | None = None


class Task:
    """Base class of tasks. An instance holds the arguments, rows and labels of one run.

    A run calls the methods in the order of their definition. To add a task, derive a class and list it in
    `hf_localattn.tasks.TASKS`.

    Args:
        args: Data arguments, an instance of the task's `DataArguments`.
        training_args: Training arguments, an instance of the task's `TrainingArguments`.

    Raises:
        ValueError: The training arguments do not suit the task.
    """

    name: ClassVar[str]
    """Key of the task in `hf_localattn.tasks.TASKS`."""
    model_task: ClassVar[str]
    """Key of the model classes in `hf_localattn.families.AUTO_CLASSES`."""
    DataArguments: ClassVar[type[DataArguments]]
    TrainingArguments: ClassVar[type[TrainingArguments]] = TrainingArguments
    trainer_class: ClassVar[type[TaskTrainer]] = TaskTrainer
    collator_class: ClassVar[Any] = DataCollatorWithPadding
    streams: ClassVar[bool] = False
    """True if training rows can be read by `--streaming`."""
    scores_tokens: ClassVar[bool] = False
    """True if the outputs that `score` takes have a value for each token."""
    writes_validation: ClassVar[bool] = False
    """True if predictions for validation rows are written, too."""
    group_column: ClassVar[str | None] = None
    """Rows with the same value in this column stay in the same part of a fold; None for no groups."""
    class_column: ClassVar[str | None] = None
    """Column of classes for stratified folds; None for no stratification."""
    rows_beyond_limit: ClassVar[int] = 0
    """Number of rows to load beyond `--max_train_samples` and its like, to see whether a group of rows ends there."""
    has_lengths: ClassVar[bool] = True
    """True if the length of an input is that of its `input_ids`."""
    compute_loss: Callable[..., Any] | None = None
    """`compute_loss_func` of Trainer, if the loss is not that of the model."""
    has_classes: bool = True
    """False if labels are not one class each, so that they cannot be smoothed."""
    own_metrics: tuple[str, ...] = ()
    """Keys of `hf_localattn.metrics.METRICS` that can read the predictions of the task."""
    further_metric: Any = None
    """Metric of `--metric`."""
    further_scores: tuple[str, ...] = ()
    """Names of the scores of `--metric`, if known."""

    metrics: Mapping[str, bool]
    """Scores that can select the best model, each with True if greater is better. Known after `choose_labels`.

    The first score replaces "loss" as Trainer's default. The first score other than "loss" is the main score.
    """
    max_length: int
    """Maximum number of tokens of an input, known after `adapt`."""

    def __init__(self, args: Any, training_args: Any):
        self.args = args
        self.training_args = training_args
        self.rows: Splits = {}
        """Rows of each split, without training rows that are left out."""
        self.features: Splits = {}

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        """Load the rows of a file, of a split on the Hub, or of a part of a stream.

        Args:
            data: File, or rows with their name.
            labeled: Raise an error for rows without a label.
        """
        raise NotImplementedError

    def open_for_table(self, data: Data, holds: str, labeled: bool) -> Source:
        """Open data for `read`. Rows that may be test rows keep their input, for a table of predictions."""
        may_be_test = self.training_args.do_predict and not (labeled and self.args.held_out is None)
        return replace(open_source(data, holds), keeps_input=may_be_test)

    def choose_labels(self, data: Splits, model_args: ModelArguments, config: Any) -> dict[str, Any]:
        """Choose the labels, and the `metrics` that they have.

        Args:
            data: Rows of all splits.
            model_args: The model.
            config: Configuration of a checkpoint with a head for the task; None if the model gets a new head.

        Returns:
            Fields of the model's configuration that depend on the data, such as `id2label`.

        Raises:
            ValueError: The labels of data and checkpoint do not match.
        """
        return {}

    def prepare_rows(self, data: Splits) -> Splits:
        """Check the rows of all splits, or of a part of a stream, and convert their labels to indices.

        Raises:
            ValueError: Rows do not suit the labels or the arguments.
        """
        return data

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that model and tokenizer suit the task, and set the lengths of inputs.

        Raises:
            ValueError: Model or tokenizer does not suit the task, or a length leaves no room for text.
        """
        self.max_length = input_length(model, tokenizer, self.args)
        special = tokenizer.num_special_tokens_to_add(pair=True)
        if self.max_length <= special:
            raise ValueError(f"--max_seq_length {self.max_length} leaves no room for text; give more than {special}.")

    def encoder(self, split: str) -> Encoder:
        """Return the encoder of the rows of a split."""
        raise NotImplementedError

    def metric_examples(self) -> tuple[Any, Any] | None:
        """Return predictions and equal references with all labels, in the form that `--metric` takes.

        A metric is tried with them before training. None leaves the attempt out.
        """
        return None

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        """Return the features for the model, without those that have no label."""
        return self.select(split, features, range(len(features)))

    def select(self, split: str, features: datasets.Dataset, kept: Sequence[int]) -> datasets.Dataset:
        """Return the features of some rows; warn of the others, and of inputs that are cut."""
        full = sum(longest_of(ids) >= self.max_length for ids in features["input_ids"])
        if full:
            logger.warning(
                "%d of %d %s rows fill the %d tokens of --max_seq_length: longer inputs are cut.",
                full,
                len(features),
                split,
                self.max_length,
            )
        if not kept:
            raise ValueError(f"No {split} row has its word within {self.max_length} tokens: check --max_seq_length.")
        left = len(features) - len(kept)
        if left:
            logger.warning(
                "%d of %d %s rows are left out: truncation removed all their words, or their cue.",
                left,
                len(features),
                split,
            )
        return features.select(kept)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        """Return the data collator, by default a `collator_class` that pads as the arguments say.

        Args:
            tokenizer: Tokenizer that pads.
            model: Model that takes the batches.
            multiple: Pad to a multiple of this number, if not None.
        """
        if not self.args.pad_to_max_length:
            return self.collator_class(tokenizer, pad_to_multiple_of=multiple)
        return self.collator_class(
            tokenizer,
            padding="max_length",
            max_length=self.max_length,
            pad_to_multiple_of=multiple,
        )

    def finish_model(self, trainer: TaskTrainer) -> dict[str, float]:
        """Change the trained model before it is saved, and return metrics of that."""
        return {}

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the outputs for a batch that `score` needs, by default the first one."""
        return tuple(outputs[:1])

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return predictions for the rows of a split, and their scores.

        Args:
            split: Name of the split.
            outputs: Result of `keep_outputs` for all features, an array or several. With `scores_tokens`, position i
                of (features, tokens, ...) is token i of the unpadded feature.
            labels: Labels of all features, or None.
        """
        raise NotImplementedError

    def of_labeled_rows(
        self, split: str, outputs: np.ndarray, labels: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """Return the outputs for the rows of a split that have a label, these labels, and `labeled_samples`.

        The latter counts them, if `labels` is None since other rows have no label.
        """
        if labels is not None:
            return outputs, labels, {}
        labeled, known_labels = labeled_rows(self.rows[split])
        return outputs[labeled], np.asarray(known_labels), {LABELED: len(labeled)}

    def constant_outputs(self, split: str) -> Any:
        """Return outputs for a split that are the same for all rows, the best for the training rows.

        A model must score better than they. None if the task has no such outputs.
        """
        return None

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return the files with the predictions for the rows of a split, by name.

        Args:
            split: "test" or another test split; with `writes_validation` also "validation".
            prefix: Prefix of the scores, such as "predict".
            predictions: Predictions from `score`.
        """
        raise NotImplementedError


def longest_of(ids: Sequence[Any]) -> int:
    """Return the length of an input, or that of the longest of several choices."""
    if not ids or isinstance(ids[0], int):
        return len(ids)
    return max(map(len, ids))


def choose_labels(
    of_data: Labels | None,
    model_args: ModelArguments,
    config: Any,
    *,
    trained: bool,
    fixed: bool = False,
) -> Labels:
    """Return the labels to predict, based on the data and the checkpoint.

    The checkpoint's labels are kept if they include the data's, and without training. If data and checkpoint have the
    same labels in different spellings, the data's spelling is kept.

    Args:
        of_data: Labels of the data, or None.
        model_args: The model.
        config: Configuration of a checkpoint with such a head, or None.
        trained: True if the model is trained.
        fixed: True if the task defines the labels.

    Raises:
        ValueError: There are no labels, or data and checkpoint have other numbers of labels.
    """
    of_model = None if config is None else checkpoint_labels(config)
    if of_model is None:
        if of_data is None:
            raise ValueError("No labels: neither the data nor the model has any; give data with labels.")
        return of_data
    if of_data is None:
        return of_model
    is_named = any(name != f"LABEL_{index}" for index, name in enumerate(of_model.names))
    keeps_model = not (trained or fixed)
    if of_data.problem_type == of_model.problem_type:
        if set(of_data.names) <= set(of_model.names):
            return of_model
        spelled = {name.casefold(): name for name in of_data.names}
        names = tuple(spelled.get(name.casefold(), name) for name in of_model.names)
        if set(of_data.names) <= set(names) and len(set(names)) == len(names):
            return Labels(of_data.problem_type, names)
        indices = tuple(map(str, range(of_model.num_labels)))
        if keeps_model and set(of_data.names) <= set(indices):
            return Labels(of_data.problem_type, indices)  # data and predictions use indices instead of names
        if keeps_model and is_named:
            return of_model
    elif keeps_model and of_model.problem_type == REGRESSION and of_data.problem_type == SINGLE_LABEL:
        return of_model  # all scores may happen to be whole numbers
    if of_model.num_labels != of_data.num_labels and not model_args.ignore_mismatched_sizes:
        raise ValueError(
            f"{model_args.source} predicts {of_model}, but the data have {of_data}. Pass --ignore_mismatched_sizes to"
            " initialize a new head, or choose another model."
        )
    if is_named:
        logger.warning("%s predicts %s; taking them for the data's %s.", model_args.source, of_model, of_data)
    return of_data


def checkpoint_labels(config: PreTrainedConfig) -> Labels:
    """Return the labels of a checkpoint's head."""
    problem_type = config.problem_type or (REGRESSION if config.num_labels == 1 else SINGLE_LABEL)
    if problem_type == REGRESSION:
        return Labels(REGRESSION)
    names = [str(config.id2label[index]) for index in range(config.num_labels)]
    return Labels(problem_type, tuple(names))


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a configuration that name the labels; without names those of a single score."""
    names = names or ["LABEL_0"]
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def input_length(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: DataArguments, name: str = "max_seq_length"
) -> int:
    """Return the argument `name`, limited (with a warning) to the longest input of model and tokenizer."""
    wanted = getattr(data_args, name)
    limit = longest_input(model, tokenizer)
    if limit is None or wanted <= limit:
        return wanted
    family = family_of(model.config)
    reason = ""
    if family is not None and limit == getattr(model.config, "max_tokens", None):
        reason = f" ({family.length_limit})"
    logger.warning("%s %d is more than the model takes%s: using %d.", name, wanted, reason, limit)
    return limit


def table_of(rows: datasets.Dataset, predictions: Iterable[Any]) -> str:
    """Return a table of the index of each row, counted from 0, and its prediction."""
    lines = ["index\tprediction\n"]
    for index, prediction in zip(row_indices(rows), predictions, strict=True):
        lines.append(f"{index}\t{prediction}\n")
    return "".join(lines)
