"""Base class of tasks, and the values that their steps hand on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import datasets
import numpy as np
import torch
from transformers import DataCollatorWithPadding, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments

from hf_localattn.data.labels import Labels
from hf_localattn.data.rows import KNOWN_LABEL, LABELED, Data, Source, labeled_rows, open_source, row_indices
from hf_localattn.families import family_of
from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.settings.data import DataArguments as DataArguments
from hf_localattn.tasks.labels import Head

logger = logging.getLogger(__name__)

Rows = dict[str, datasets.Dataset]
"""Rows by split: "train", "validation", "test", and further ones such as "test_mismatched"."""

Encoder = tuple[Callable[..., Any], dict[str, Any]]
"""Function that turns a batch of rows into features, and its keyword arguments."""

Loss = Callable[..., torch.Tensor]
"""Function of a model's outputs, the labels, and the number of items of the whole batch, as `Trainer` takes it."""

PARTS = {"train": "train", "validation": "eval", "test": "predict"}
"""Parts of the data, and their names in options and metrics."""

LIMITS = {part: f"max_{prefix}_samples" for part, prefix in PARTS.items()}
"""Name of the argument that limits the rows of each part."""


def prefix_of(split: str) -> str:
    """Return the prefix of the metrics of a split: "eval_mismatched" of "validation_mismatched"."""
    part, separator, suffix = split.partition("_")
    return PARTS[part] + separator + suffix


def split_of(prefix: str) -> str:
    """Return the split of a prefix of metrics: "validation_mismatched" of "eval_mismatched"."""
    name, separator, suffix = prefix.partition("_")
    part = {"eval": "validation", "predict": "test"}.get(name, name)
    return part + separator + suffix


@dataclass(frozen=True)
class Target:
    """Target of a model: its labels, and the scores that it can have.

    Args:
        metrics: Scores that can select the best model, each with True if greater is better. The first one replaces
            "loss" as Trainer's default. The first one other than "loss" is the main score.
        labels (*optional*): The labels, if the task has some.
        fields (*optional*): Fields of the model's configuration that depend on the data, such as `id2label`.
        own_metrics (*optional*): Keys of `hf_localattn.metrics.METRICS` that can read the predictions.
        examples (*optional*): Predictions and equal references with all labels, with which `--metric` is tried before
            training.
        has_classes (*optional*): False if labels are not one class each, so that they cannot be smoothed.
    """

    metrics: Mapping[str, bool]
    labels: Labels | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    own_metrics: tuple[str, ...] = ()
    examples: tuple[Any, Any] | None = None
    has_classes: bool = True

    @property
    def names(self) -> list[str]:
        """Names of the labels, in the order of the model's outputs."""
        return [] if self.labels is None else list(self.labels.names)


@dataclass(frozen=True)
class Encoding:
    """Tokenizer and maximum number of tokens of an input."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int


@dataclass(frozen=True)
class Split:
    """Rows of a split, and the features of those that the model gets.

    Args:
        name: Name of the split.
        rows: The rows.
        features: Inputs of the model, with columns for the scores.
        kept (*optional*): Index of the row of each feature, if features are rows.
        words (*optional*): Indices of the words that the model sees, by feature, if words are labeled.
    """

    name: str
    rows: datasets.Dataset
    features: datasets.Dataset
    kept: Sequence[int] = ()
    words: Sequence[Sequence[int]] = ()

    @property
    def has_labels(self) -> bool:
        """True if the labels of some rows are known, so that there are scores."""
        return KNOWN_LABEL in self.rows.column_names or not {"label", "labels"}.isdisjoint(self.features.column_names)

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each feature; None if they are not all known."""
        if "label" not in self.features.column_names:
            return None
        return np.asarray(self.features.with_format("numpy")["label"][:])


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


@dataclass(frozen=True)
class Task:
    """Base class of tasks: the steps of a run.

    An instance has the options that choose the data. Each step is a method that takes the values of the steps before
    it and returns its own; nothing is kept in the task. `hf_localattn.training.run` calls them in the order of their
    definition. To add a task, derive a class and list it in `hf_localattn.tasks.TASKS`.

    Args:
        args: Data arguments, an instance of the task's `DataArguments`.
    """

    args: Any

    name: ClassVar[str]
    """Key of the task in `hf_localattn.tasks.TASKS`."""
    model_task: ClassVar[str]
    """Key of the model classes in `hf_localattn.families.AUTO_CLASSES`."""
    DataArguments: ClassVar[type[DataArguments]]
    generates: ClassVar[bool] = False
    """True if predictions are generated texts, not outputs of a forward pass."""
    collator_class: ClassVar[Any] = DataCollatorWithPadding
    streams: ClassVar[bool] = False
    """True if training rows can be read by `--streaming`."""
    scores_tokens: ClassVar[bool] = False
    """True if the outputs that `score` takes have a value for each token."""
    writes_validation: ClassVar[bool] = False
    """True if predictions for validation rows are written, too."""
    input_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of what a model reads. Rows with equal ones stay in the same part of a fold."""
    group_column: ClassVar[str | None] = None
    """Rows with the same value in this column stay in the same part of a fold; None for no groups."""
    class_column: ClassVar[str | None] = None
    """Column of classes for stratified folds; None for no stratification."""
    rows_beyond_limit: ClassVar[int] = 0
    """Number of rows to load beyond `--max_train_samples` and its like, to see whether a group of rows ends there."""
    has_lengths: ClassVar[bool] = True
    """True if the length of an input is that of its `input_ids`."""
    has_classes: ClassVar[bool] = True
    """False if no label is a class, so that labels cannot be smoothed."""
    own_metrics: ClassVar[tuple[str, ...]] = ()
    """Keys of `hf_localattn.metrics.METRICS` that can read the predictions, before the labels are known."""

    @property
    def is_calibrated(self) -> bool:
        """True if a temperature scales the logits of the trained model."""
        return False

    def check(self, training_args: TrainingArguments) -> None:
        """Raise `ValueError` if training arguments do not suit the data arguments."""

    @property
    def layout(self) -> Any:
        """Layout of the rows, as far as the options tell it. The rows of all splits are read by one layout."""
        return None

    def read(self, data: Data, layout: Any, *, labeled: bool, predicted: bool = False) -> tuple[datasets.Dataset, Any]:
        """Load the rows of a file, of a split on the Hub, or of a part of a stream.

        Args:
            data: File, or rows with their name.
            layout: The layout, completed by the splits that were read before.
            labeled: Raise an error for rows without a label.
            predicted: Keep the input of each row, for a table of predictions.

        Returns:
            The rows, and the layout, completed by them.
        """
        raise NotImplementedError

    def choose_target(self, rows: Rows, layout: Any, head: Head) -> Target:
        """Choose the labels to predict, and their scores.

        Args:
            rows: Rows of all splits.
            layout: Layout by which they were read.
            head: Head of the model that the run starts from.

        Raises:
            ValueError: The labels of data and checkpoint do not match.
        """
        raise NotImplementedError

    def prepare_rows(self, rows: Rows, target: Target) -> Rows:
        """Check the rows of all splits, or of a part of a stream, and convert their labels to indices.

        Raises:
            ValueError: Rows do not suit the target or the options.
        """
        return rows

    def choose_loss(self, rows: Rows, target: Target, label_smoothing: float) -> Loss | None:
        """Return the loss of the training, if it is not that of the model."""
        return None

    def adapt(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, training_args: TrainingArguments
    ) -> Encoding:
        """Check that model and tokenizer suit the task, and choose the length of inputs.

        Raises:
            ValueError: Model or tokenizer does not suit the task, or a length leaves no room for text.
        """
        max_length = input_length(model, tokenizer, self.args.max_seq_length)
        special = tokenizer.num_special_tokens_to_add(pair=True)
        if max_length <= special:
            raise ValueError(f"--max_seq_length {max_length} leaves no room for text; give more than {special}.")
        return Encoding(tokenizer, max_length)

    def choose_arguments(self, encoding: Any, training_args: Any) -> dict[str, Any]:
        """Return the training arguments that follow from options and lengths, by name."""
        return {}

    def encoder(self, split: str, target: Target, encoding: Any) -> Encoder:
        """Return the encoder of the rows of a split."""
        raise NotImplementedError

    def finish_features(self, name: str, rows: datasets.Dataset, features: datasets.Dataset, encoding: Any) -> Split:
        """Return a split with the features for the model, without those that have no label."""
        return select_features(name, rows, features, range(len(features)), encoding.max_length)

    def collator(self, encoding: Any, model: PreTrainedModel, multiple: int | None) -> Any:
        """Return the data collator, by default a `collator_class` that pads as the options say.

        Args:
            encoding: The tokenizer that pads, and the length.
            model: Model that takes the batches.
            multiple: Pad to a multiple of this number, if not None.
        """
        if not self.args.pad_to_max_length:
            return self.collator_class(encoding.tokenizer, pad_to_multiple_of=multiple)
        return self.collator_class(
            encoding.tokenizer,
            padding="max_length",
            max_length=encoding.max_length,
            pad_to_multiple_of=multiple,
        )

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the outputs for a batch that `score` needs, by default the first one."""
        return tuple(outputs[:1])

    def complete_outputs(self, outputs: Any, split: Split, model: Any, encoding: Any) -> Any:
        """Return outputs for all features with those that need more than a pass over them, by default none.

        Args:
            outputs: Result of `keep_outputs` for all features, an array or several.
            split: The split.
            model: Model or graph that has computed the outputs.
            encoding: The tokenizer of the model.
        """
        return outputs

    def score(self, split: Split, outputs: Any, target: Target, encoding: Any) -> Scored:
        """Return predictions for the rows of a split, and their scores.

        Args:
            split: The split.
            outputs: Result of `complete_outputs`. With `scores_tokens`, position i of (features, tokens, ...) is token
                i of the unpadded feature.
            target: The labels and scores.
            encoding: The tokenizer of the model.
        """
        raise NotImplementedError

    def score_pair(self, predictions: Any, references: Any, target: Target) -> dict[str, float]:
        """Return the scores of some rows, from parts of the `pair` of `Scored`; empty if the task has no such scores.

        Args:
            predictions: Predictions for the rows.
            references: References of the rows.
            target: The labels and scores.
        """
        return {}

    def constant_outputs(self, split: Split, train: Split, target: Target) -> Any:
        """Return outputs for a split that are the same for all rows, the best for the training rows.

        A model must score better than they. None if the task has no such outputs.
        """
        return None

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return the files with the predictions for the rows of a split, by name.

        Args:
            split: "test" or another test split; with `writes_validation` also "validation".
            predictions: Predictions from `score`.
            target: The labels.
        """
        raise NotImplementedError


def open_for_table(data: Data, holds: str, keeps_input: bool) -> Source:
    """Open data. Rows to predict on keep their input, for a table of predictions."""
    return replace(open_source(data, holds), keeps_input=keeps_input)


def select_features(
    name: str, rows: datasets.Dataset, features: datasets.Dataset, kept: Sequence[int], max_length: int
) -> Split:
    """Return a split with the features of some rows; warn of the other rows, and of inputs that are cut.

    Args:
        name: Name of the split.
        rows: Its rows.
        features: A feature for each row.
        kept: Indices of the rows to keep.
        max_length: Maximum number of tokens of an input.

    Raises:
        ValueError: No row is kept.
    """
    full = sum(longest_of(ids) >= max_length for ids in features["input_ids"])
    if full:
        logger.warning(
            "%d of %d %s rows fill the %d tokens of --max_seq_length: longer inputs are cut.",
            full,
            len(features),
            name,
            max_length,
        )
    if not kept:
        raise ValueError(f"No {name} row has its word within {max_length} tokens: check --max_seq_length.")
    left = len(features) - len(kept)
    if left:
        logger.warning(
            "%d of %d %s rows are left out: truncation removed all their words, or their cue.",
            left,
            len(features),
            name,
        )
    return Split(name, rows, features.select(kept), kept)


def longest_of(ids: Sequence[Any]) -> int:
    """Return the length of an input, or that of the longest of several choices."""
    if not ids or isinstance(ids[0], int):
        return len(ids)
    return max(map(len, ids))


def labeled_outputs(split: Split, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Return the outputs for the rows of a split that have a label, these labels, and `labeled_samples`.

    The count is reported only if some rows lack a label.
    """
    labels = split.labels
    if labels is not None:
        return outputs, labels, {}
    labeled, known_labels = labeled_rows(split.rows)
    return outputs[labeled], np.asarray(known_labels), {LABELED: len(labeled)}


def input_length(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, wanted: int, name: str = "max_seq_length"
) -> int:
    """Return the value of the option `name`, limited (with a warning) to the longest input of model and tokenizer."""
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
