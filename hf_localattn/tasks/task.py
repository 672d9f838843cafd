"""The base class of tasks: everything that a run needs to know of its data and of its model's predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets
import numpy as np
from transformers import EvalPrediction, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.splits import SPLITS, Data, load_splits


@dataclass(frozen=True)
class Checkpoint:
    """The model that a run starts from, as far as it decides on the labels.

    Args:
        name: folder or Hub id, for error messages.
        config: its configuration if it has a head for the task; None if the head will be a fresh one.
        trained: whether the model is trained on the data, and can learn other labels.
        may_be_fresh: whether a head of another size starts afresh.
    """

    name: str
    config: PreTrainedConfig | None = None
    trained: bool = True
    may_be_fresh: bool = False


class Task:
    """One task, with the data of one run.

    A run calls the methods nearly in the order in which they are defined here. A task keeps what later methods need,
    such as its labels, in attributes. To add a task, derive a class, and list it in `hf_localattn.tasks.TASKS`.

    Args:
        args: the data arguments, an instance of `DataArguments`.
    """

    name: ClassVar[str]
    """Its key in `hf_localattn.tasks.TASKS`."""
    model_task: ClassVar[str]
    """The key of its model classes in `hf_localattn.registry.AUTO_CLASSES`."""
    head: ClassVar[str | None] = None
    """The end of its model classes' names, if a checkpoint's labels matter, such as "ForTokenClassification"."""
    DataArguments: ClassVar[type[DataArguments]]
    metrics: Mapping[str, bool]
    """Scores by which the best model can be chosen, with True if greater is better.

    The first one stands for the loss, and the first one that is not the loss is the main score.
    """
    metrics_depend_on_labels: ClassVar[bool] = False
    """True if `reported_metrics` is a part of `metrics` that is known once the data are loaded."""
    generates: ClassVar[bool] = False
    """True if models are evaluated by texts that they generate."""
    logits_scored: ClassVar[int | None] = None
    """Number of outputs that `score_examples` takes; None if `compute_metrics` scores features directly."""
    group_column: ClassVar[str | None] = None
    """Column of the rows that folds keep together."""
    class_column: ClassVar[str | None] = None
    """Column of the classes that folds share out evenly."""

    def __init__(self, args: Any):
        self.args = args
        self.examples: dict[str, Any] = {}
        """The examples of each split that `score_examples` compares with, if it is used."""

    def check_training(self, training_args: Any) -> None:
        """Check the training arguments, and complete those that the task decides on.

        Raises:
            ValueError: the task cannot be trained like this.
        """

    def check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Check the model that a run starts from before the data are loaded.

        Raises:
            ValueError: it is one for another task.
        """

    @property
    def hub_splits(self) -> Mapping[str, Sequence[str]]:
        """Names of the splits on the Hub, for each part of a run."""
        return SPLITS

    def read(self, path: str, labeled: bool) -> datasets.Dataset:
        """Return the rows of a file.

        Args:
            path: of the file.
            labeled: whether rows without a label are an error.
        """
        raise NotImplementedError

    def normalize(self, rows: datasets.Dataset, name: str, labeled: bool) -> datasets.Dataset:
        """Return the rows of a data set in the form that `read` gives those of a file.

        Args:
            rows: from the Hub.
            name: of data set and split, for error messages.
            labeled: whether rows without a label are an error.
        """
        raise NotImplementedError

    def load(self, parts: Mapping[str, str], **hub: Any) -> Data:
        """Load the rows of all splits that a run needs.

        Args:
            parts: each part of the run ("train", "validation", "test") with the option that asks for it.
            **hub: for `datasets.load_dataset`.

        Raises:
            ValueError: a part has no data, or they cannot be used.
            OSError: they cannot be fetched or read.
        """
        return load_splits(self, self.args, parts, **hub)

    def config_fields(self, data: Data, checkpoint: Checkpoint) -> dict[str, Any]:
        """Return the fields of the model's configuration that follow from the data, such as `id2label`.

        Raises:
            ValueError: the labels of data and checkpoint do not go together.
        """
        return {}

    def number_labels(self, data: Data) -> Data:
        """Return the data with labels as the model numbers them."""
        return data

    @property
    def reported_metrics(self) -> Sequence[str]:
        """Names of the scores that an evaluation reports."""
        return tuple(self.metrics)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Data) -> None:
        """Check that model and tokenizer suit the task, and choose the lengths of inputs.

        Raises:
            ValueError: they do not, or a length leaves no room for text.
        """
        raise NotImplementedError

    @property
    def longest_output(self) -> int | None:
        """Tokens of the longest text to generate; None for tasks that generate none."""
        return None

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function that turns a batch of rows into features, and its keyword arguments."""
        raise NotImplementedError

    def finish_features(self, data: Data, features: Data) -> Data:
        """Return the features that the model is given, and warn about what it does not see."""
        return features

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        """Return what makes batches of features.

        Args:
            tokenizer: pads.
            model: is given the batches.
            multiple: of which lengths should be; None for any.
        """
        raise NotImplementedError

    compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None
    """Scores of the model's outputs for features with labels."""
    preprocess_logits: Callable[[Any, Any], Any] | None = None
    """Reduces the logits of a batch to what `compute_metrics` needs."""

    def score_examples(
        self, logits: tuple[np.ndarray, ...], examples: Any, features: datasets.Dataset
    ) -> tuple[Any, dict[str, float]]:
        """Return predictions for the examples, and their scores if it is known what is right.

        Args:
            logits: the first `logits_scored` outputs, each (features, tokens, ...); position i is token i of the
                unpadded feature.
            examples: those that the features were made from.
            features: the model's inputs.
        """
        raise NotImplementedError

    def write_scored(self, folder: Path, prefix: str, predictions: Any) -> None:
        """Write the predictions that an evaluation has scored, if they are worth keeping.

        Args:
            folder: the output folder.
            prefix: that of the scores, "eval" or the like.
            predictions: of `score_examples`.
        """

    def is_labeled(self, rows: datasets.Dataset) -> bool:
        """Return whether predictions for these rows can be scored."""
        return True

    def write_predictions(
        self, folder: Path, split: str, prefix: str, rows: datasets.Dataset, output: PredictionOutput
    ) -> None:
        """Write the predictions for the rows of a split.

        Args:
            folder: the output folder.
            split: "test", or one that is named after it.
            prefix: that of the split's scores, "predict" or the like.
            rows: as they were read.
            output: of the trainer.
        """
        raise NotImplementedError
