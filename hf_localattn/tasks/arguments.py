"""Data arguments shared by all tasks. Each field is a command-line option."""

from dataclasses import dataclass, field
from typing import Any

from hf_localattn.data.folds import Fold
from hf_localattn.names import find_files


def option(default: Any, text: str) -> Any:
    """Return a dataclass field with a default and a help text."""
    return field(default=default, metadata={"help": text})


@dataclass
class DataArguments:
    """Data files or data set of a run, and limits on their rows and lengths.

    A file may be `sample:NAME`, one of the small files of the package.
    """

    dataset_name: str | None = option(None, "Name of a data set on the Hub, which must load without a script.")
    dataset_config_name: str | None = option(None, "Configuration name of the data set on the Hub.")
    train_file: str | None = option(None, "Local file with training data.")
    validation_file: str | None = option(None, "Local file with evaluation data.")
    test_file: str | None = option(None, "Local file with data to predict on; labels are not needed.")
    overwrite_cache: bool = option(False, "Overwrite cached features.")
    preprocessing_num_workers: int | None = option(None, "Number of processes for preprocessing.")
    max_seq_length: int = option(128, "Maximum number of input tokens, with special tokens; longer inputs are cut.")
    pad_to_max_length: bool = option(
        False, "Pad all inputs to max_seq_length, not to the longest in the batch: for TPUs; slower elsewhere."
    )
    skip_empty: bool = option(
        False,
        "Leave out rows with an empty text (question, context, sentence, choice) instead of raising an error, and"
        " log their number. Predictions keep the index of each row in its file.",
    )
    metric: str | None = option(
        None,
        "Further metric to report: one of hf_localattn.metrics, or a module of evaluate by its name on the Hub or its"
        " path, whose code is executed.",
    )
    max_train_samples: int | None = option(None, "Maximum number of training rows.")
    draw_train_samples: bool = option(
        False,
        "Draw the --max_train_samples rows at random, by --seed, instead of using the first ones. A larger number with"
        " the same seed adds rows to those of a smaller one.",
    )
    max_eval_samples: int | None = option(None, "Maximum number of evaluation rows.")
    max_predict_samples: int | None = option(None, "Maximum number of rows to predict on.")
    streaming: bool = option(
        False,
        "Read the training rows while the model is trained, and keep none of them: for data sets that do not fit into"
        " memory or on the disk. Needs --max_steps. Files must be .jsonl.",
    )
    num_folds: int | None = option(
        None,
        "Number of folds for cross-validation. The runs write to OUTPUT_DIR/fold-1 and so on, and each is tested on"
        " another part of the training data; mean and deviation of the scores are reported. All runs use the"
        " --test_file or --validation_file, if given.",
    )
    fold: int | None = option(
        None,
        "Run only this fold of --num_folds, from 1, such as one task of a SLURM array. When all are finished, the same"
        " command without --fold reports mean and deviation.",
    )
    held_out: Fold | None = field(default=None, init=False)  # not an option: the fold of the data of this run

    def __post_init__(self) -> None:
        files = (self.train_file, self.validation_file, self.test_file)
        for name, path in zip(("train_file", "validation_file", "test_file"), files, strict=True):
            if path is not None and "sample:" in path:
                setattr(self, name, find_files(path))
        if self.dataset_name is None and not any(files):
            raise ValueError("No data: give --dataset_name, or --train_file, --validation_file or --test_file.")
        if self.dataset_name is not None and any(files):
            raise ValueError("Give either --dataset_name or files, not both.")
        for name in ("max_train_samples", "max_eval_samples", "max_predict_samples", "max_seq_length"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1; got {value}.")
        if self.draw_train_samples and (self.max_train_samples is None or self.streaming):
            problem = "cannot be used with --streaming" if self.streaming else "needs --max_train_samples"
            raise ValueError(f"--draw_train_samples {problem}: it draws that many of all rows.")
        if self.fold is not None and not 1 <= self.fold <= (self.num_folds or 0):
            raise ValueError(f"--fold must be between 1 and --num_folds; got {self.fold} of {self.num_folds}.")
        if self.num_folds is not None:
            if self.streaming:
                raise ValueError("--streaming cannot be used with --num_folds, which splits all rows: leave one out.")
            if self.num_folds < 2:
                raise ValueError(f"--num_folds must be at least 2; got {self.num_folds}.")
            if self.dataset_name is None and self.train_file is None:
                raise ValueError("--num_folds splits the training data: give --train_file or --dataset_name.")
