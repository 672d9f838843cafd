"""Base class of tasks. A task defines data, features, scores and predictions of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets
import numpy as np
from transformers import EvalPrediction, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.rows import Data
from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.splits import SPLITS, Splits, load_splits
from hf_localattn.tasks.streaming import StreamedRows


@dataclass(frozen=True)
class Checkpoint:
    """Properties of a run's initial model that the labels depend on.

    Args:
        name: folder or Hub id, for error messages.
        config: configuration of a checkpoint with a head for the task; None if the head will be newly initialized.
        trained: True if the run trains the model, so that it can learn other labels. *optional*, defaults to True.
        may_be_fresh: True if a head of another size may be newly initialized. *optional*, defaults to False.
    """

    name: str
    config: PreTrainedConfig | None = None
    trained: bool = True
    may_be_fresh: bool = False


class Task:
    """Base class of tasks. An instance holds the data arguments and the state of one run.

    A run calls the methods roughly in the order of their definition. Attributes store state for later methods, such as
    the labels. To add a task, derive a class and list it in `hf_localattn.tasks.TASKS`.

    Args:
        args: data arguments, an instance of the task's `DataArguments`.
    """

    name: ClassVar[str]
    """Key of the task in `hf_localattn.tasks.TASKS`."""
    model_task: ClassVar[str]
    """Key of the model classes in `hf_localattn.registry.AUTO_CLASSES`."""
    head: ClassVar[str | None] = None
    """Suffix of the model classes, such as "ForTokenClassification"; None if a checkpoint's labels do not matter."""
    DataArguments: ClassVar[type[DataArguments]]
    metrics: Mapping[str, bool]
    """Scores that can select the best model, each with True if greater is better.

    The first score replaces "loss" as Trainer's default. The first score other than "loss" is the main score.
    """
    metrics_depend_on_labels: ClassVar[bool] = False
    """True if `reported_metrics` is a subset of `metrics` that depends on the labels in the data."""
    generates: ClassVar[bool] = False
    """True if generated texts are evaluated."""
    streams: ClassVar[bool] = False
    """True if training rows can be read by `--streaming`."""
    logits_scored: ClassVar[int | None] = None
    """Number of outputs that `score_examples` takes; None if `compute_metrics` scores features directly."""
    group_column: ClassVar[str | None] = None
    """Rows with the same value in this column stay in the same part of a fold; None for no groups."""
    class_column: ClassVar[str | None] = None
    """Column of classes for stratified folds; None for no stratification."""
    rows_beyond_limit: ClassVar[int] = 0
    """Number of rows to load beyond `--max_train_samples` and its like, to see whether a group of rows ends there."""

    def __init__(self, args: Any):
        self.args = args
        self.examples: dict[str, Any] = {}
        """Examples of each split for `score_examples`."""
        self.training_rows: StreamedRows | None = None
        """All training rows if they are streamed. `load` then returns the first ones as "train"."""

    def check_training(self, training_args: Any) -> None:
        """Validate the training arguments, and set arguments that depend on the task.

        Raises:
            ValueError: the arguments do not suit the task.
        """

    def check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Check the model that a run starts from, before the data are loaded.

        Raises:
            ValueError: the model is for another task.
        """

    @property
    def hub_splits(self) -> Mapping[str, Sequence[str]]:
        """Names of the splits on the Hub for each part of a run."""
        return SPLITS

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        """Load the rows of a file, of a split on the Hub, or of a part of a stream.

        Args:
            data: file, or rows with their name.
            labeled: raise an error for rows without a label.
        """
        raise NotImplementedError

    def load(self, parts: Mapping[str, str], *, seed: int = 0, **hub: Any) -> Splits:
        """Load the rows of all splits that a run needs.

        Args:
            parts: parts of the run ("train", "validation", "test"), each with the option that requires it.
            seed: random seed for drawing training rows, *optional*, defaults to 0.
            **hub: arguments of `datasets.load_dataset`.

        Raises:
            ValueError: a part has no data, or its data are invalid.
            OSError: the data cannot be downloaded or read.
        """
        data = load_splits(self, self.args, parts, seed=seed, **hub)
        self.check_rows(data)
        return data

    def check_rows(self, data: Splits) -> None:
        """Check the rows of all splits, or a part of streamed rows, against the arguments.

        Raises:
            ValueError: a split has rows that the arguments exclude.
        """

    def config_fields(self, data: Splits, checkpoint: Checkpoint) -> dict[str, Any]:
        """Return the fields of the model's configuration that depend on the data, such as `id2label`.

        Raises:
            ValueError: the labels of data and checkpoint do not match.
        """
        return {}

    def number_labels(self, data: Splits) -> Splits:
        """Convert labels to the indices that the model predicts."""
        return data

    @property
    def reported_metrics(self) -> Sequence[str]:
        """Names of the scores that an evaluation reports."""
        return tuple(self.metrics)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Splits) -> None:
        """Check that model and tokenizer suit the task, and set the lengths of inputs.

        Raises:
            ValueError: model or tokenizer does not suit the task, or a length leaves no room for text.
        """
        raise NotImplementedError

    @property
    def longest_output(self) -> int | None:
        """Maximum number of tokens to generate; None for tasks that do not generate text."""
        return None

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function that turns a batch of rows into features, and its keyword arguments."""
        raise NotImplementedError

    def is_trainable(self, feature: Mapping[str, Any]) -> bool:
        """Return False for features of streamed rows that `finish_features` would leave out."""
        return True

    def finish_features(self, data: Splits, features: Splits) -> Splits:
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

    compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None
    """Function that scores the model's outputs for labeled features; None if `score_examples` is used."""
    preprocess_logits: Callable[[Any, Any], Any] | None = None
    """Function that reduces the logits of a batch to the values that `compute_metrics` needs."""

    def score_examples(
        self, logits: tuple[np.ndarray, ...], examples: Any, features: datasets.Dataset
    ) -> tuple[Any, dict[str, float]]:
        """Return predictions and scores for the examples. Without labels, the scores are empty.

        Args:
            logits: the first `logits_scored` outputs, each (features, tokens, ...); position i is token i of the
                unpadded feature.
            examples: examples that the features were made from.
            features: features of the split, including columns that are not model inputs.
        """
        raise NotImplementedError

    def write_scored(self, folder: Path, prefix: str, predictions: Any) -> None:
        """Write the predictions of an evaluation. The base class writes nothing.

        Args:
            folder: output folder.
            prefix: prefix of the scores, such as "eval".
            predictions: predictions from `score_examples`.
        """

    def example_scores(self, rows: datasets.Dataset, predictions: Any, labels: Any) -> dict[str, Sequence[float]]:
        """Return scores of the examples by metric, for metrics that are the mean of such scores. Defaults to none.

        They are kept with the run, so that its difference from another run can be tested.

        Args:
            rows: rows of the split.
            predictions: output of the model, or predictions from `score_examples`.
            labels: labels of the features, or None.
        """
        return {}

    def is_labeled(self, rows: datasets.Dataset) -> bool:
        """Return True if predictions for these rows can be scored."""
        return True

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Write the predictions for the rows of a split.

        Args:
            folder: output folder.
            split: "test", or another test split.
            prefix: prefix of the scores, such as "predict".
            rows: rows of the split, as `load` returned them.
            output: output of the trainer.
        """
        raise NotImplementedError
