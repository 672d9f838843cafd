"""Arguments about data that all tasks have in common. A field is a command-line option."""

from dataclasses import dataclass, field
from typing import Any

from hf_localattn.data.folds import Fold


def option(default: Any, text: str) -> Any:
    """Return a field of a dataclass of arguments, with its help text."""
    return field(default=default, metadata={"help": text})


@dataclass
class DataArguments:
    """Files or data set of a run, and limits on their rows and lengths."""

    dataset_name: str | None = option(None, "A data set on the Hub that loads without a script.")
    dataset_config_name: str | None = option(None, "The configuration of the data set on the Hub.")
    train_file: str | None = option(None, "Training data, a local file.")
    validation_file: str | None = option(None, "Evaluation data, a local file.")
    test_file: str | None = option(None, "Data to predict on, a local file; they need no labels.")
    overwrite_cache: bool = option(False, "Prepare features anew even if they are in the cache.")
    preprocessing_num_workers: int | None = option(None, "Number of processes that prepare features.")
    max_seq_length: int = option(128, "Tokens of the longest input, special tokens included; longer ones are cut.")
    pad_to_max_length: bool = option(
        False, "Pad every input to max_seq_length, not to the longest of its batch: for TPUs; slower elsewhere."
    )
    skip_empty: bool = option(
        False,
        "Leave out the rows with an empty text (question, context, sentence, choice), instead of refusing their file;"
        " says how many. Predictions keep the index that a row has in its file.",
    )
    max_train_samples: int | None = option(None, "Use only so many rows to train on.")
    max_eval_samples: int | None = option(None, "Use only so many rows to evaluate on.")
    max_predict_samples: int | None = option(None, "Use only so many rows to predict on.")
    num_folds: int | None = option(
        None,
        "Cross-validation: so many runs, in OUTPUT_DIR/fold-1 and so on, each tested on another part of the training"
        " data; the mean and deviation of their scores. A --test_file or --validation_file is used by all of them.",
    )
    fold: Fold | None = field(default=None, init=False)  # no option: which of these runs this one is

    def __post_init__(self) -> None:
        files = (self.train_file, self.validation_file, self.test_file)
        if self.dataset_name is None and not any(files):
            raise ValueError("No data: give --dataset_name, or --train_file, --validation_file or --test_file.")
        if self.dataset_name is not None and any(files):
            raise ValueError("Give either --dataset_name or files, not both.")
        for name in ("max_train_samples", "max_eval_samples", "max_predict_samples", "max_seq_length"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1; got {value}.")
        if self.num_folds is not None:
            if self.num_folds < 2:
                raise ValueError(f"--num_folds must be at least 2; got {self.num_folds}.")
            if self.dataset_name is None and self.train_file is None:
                raise ValueError("--num_folds splits the training data: give --train_file or --dataset_name.")
