"""Base class of tasks. A task defines data, features, scores and predictions of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import datasets
import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.rows import Data, row_numbers
from hf_localattn.files import atomic_write
from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.trainer import TaskTrainer

Splits = dict[str, datasets.Dataset]
"""Rows or features by split: "train", "validation", "test", and further ones such as "test_mismatched"."""

SPLITS = {"train": ("train",), "validation": ("validation",), "test": ("test",)}
"""Parts of a run, and the names of their splits on the Hub."""


@dataclass(frozen=True)
class Checkpoint:
    """Properties of a run's initial model that the labels depend on.

    Args:
        name: folder or Hub id, for error messages.
        config: configuration of a checkpoint with a head for the task; None if the head will be newly initialized.
        may_be_fresh: True if a head of another size may be newly initialized, *optional*, defaults to False.
    """

    name: str
    config: PreTrainedConfig | None = None
    may_be_fresh: bool = False


@dataclass(frozen=True)
class Scored:
    """Result of an evaluation.

    Args:
        predictions: predictions for the rows of a split.
        scores: scores by name; empty if the rows have no labels.
        notes: texts that belong to the scores, such as `bleu_signature`, *optional*.
        pair: predictions and references in the form that `--metric` takes, *optional*.
    """

    predictions: Any
    scores: dict[str, float]
    notes: Mapping[str, str] = field(default_factory=dict)
    pair: tuple[Any, Any] | None = None


class Task:
    """Base class of tasks. An instance holds the arguments, rows and labels of one run.

    A run calls the methods in the order of their definition. To add a task, derive a class and list it in
    `hf_localattn.tasks.TASKS`.

    Args:
        args: data arguments, an instance of the task's `DataArguments`.
        training_args: training arguments, an instance of the task's `TrainingArguments`.

    Raises:
        ValueError: the training arguments do not suit the task.
    """

    name: ClassVar[str]
    """Key of the task in `hf_localattn.tasks.TASKS`."""
    model_task: ClassVar[str]
    """Key of the model classes in `hf_localattn.registry.AUTO_CLASSES`."""
    head: ClassVar[str | None] = None
    """Suffix of the model classes, such as "ForTokenClassification"; None if a checkpoint's labels do not matter."""
    DataArguments: ClassVar[type[DataArguments]]
    TrainingArguments: ClassVar[type[TrainingArguments]] = TrainingArguments
    trainer_class: ClassVar[type[TaskTrainer]] = TaskTrainer
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

    hub_splits: Mapping[str, Sequence[str]] = SPLITS
    """Names of the splits on the Hub for each part of a run."""
    metrics: Mapping[str, bool]
    """Scores that can select the best model, each with True if greater is better. Known after `choose_labels`.

    The first score replaces "loss" as Trainer's default. The first score other than "loss" is the main score.
    """
    best_metric: str | None = None
    """Score that selects the best model, if the arguments name one."""

    def __init__(self, args: Any, training_args: Any):
        self.args, self.training_args = args, training_args
        self.rows: Splits = {}
        """Rows of each split, without training rows that are left out."""
        self.features: Splits = {}

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        """Load the rows of a file, of a split on the Hub, or of a part of a stream.

        Args:
            data: file, or rows with their name.
            labeled: raise an error for rows without a label.
        """
        raise NotImplementedError

    def choose_labels(self, data: Splits, checkpoint: Checkpoint) -> dict[str, Any]:
        """Choose the labels, and the `metrics` that they have.

        Args:
            data: rows of all splits.
            checkpoint: model that is trained or evaluated.

        Returns:
            Fields of the model's configuration that depend on the data, such as `id2label`.

        Raises:
            ValueError: the labels of data and checkpoint do not match.
        """
        return {}

    def prepare_rows(self, data: Splits) -> Splits:
        """Check the rows of all splits, or of a part of a stream, and convert their labels to indices.

        Raises:
            ValueError: rows do not suit the labels or the arguments.
        """
        return data

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that model and tokenizer suit the task, and set the lengths of inputs.

        Raises:
            ValueError: model or tokenizer does not suit the task, or a length leaves no room for text.
        """
        raise NotImplementedError

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function that turns a batch of rows into features, and its keyword arguments."""
        raise NotImplementedError

    def is_trainable(self, feature: Mapping[str, Any]) -> bool:
        """Return False for features of streamed rows that `finish_features` would leave out."""
        return True

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        """Return the features for the model, and warn about cut inputs."""
        return features

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        """Return the data collator.

        Args:
            tokenizer: tokenizer that pads.
            model: model that takes the batches.
            multiple: pad to a multiple of this number, if not None.
        """
        raise NotImplementedError

    def keep_outputs(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the outputs for a batch that `score` needs, by default the first one."""
        return tuple(outputs[:1])

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return predictions for the rows of a split, and their scores.

        Args:
            split: name of the split.
            outputs: result of `keep_outputs` for all features, an array or several. With `scores_tokens`, position i
                of (features, tokens, ...) is token i of the unpadded feature.
            labels: labels of all features, or None.
        """
        raise NotImplementedError

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write the predictions for the rows of a split.

        Args:
            folder: output folder.
            split: "test" or another test split; with `writes_validation` also "validation".
            prefix: prefix of the scores, such as "predict".
            predictions: predictions from `score`.
        """
        raise NotImplementedError


def write_results(path: Path, rows: datasets.Dataset, predictions: Sequence[Any]) -> None:
    """Write a table of the index of each row, counted from 0, and its prediction."""
    lines = [f"{index}\t{one}\n" for index, one in zip(row_numbers(rows), predictions, strict=True)]
    atomic_write(path, "".join(["index\tprediction\n", *lines]))
