"""Training arguments of transformers' scripts with new ones, and logging."""

from __future__ import annotations

import copy
import logging
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import transformers
from huggingface_hub.utils.tqdm import enable_progress_bars
from transformers import Seq2SeqTrainingArguments as StockGenerationArguments
from transformers import TrainingArguments as StockTrainingArguments
from transformers.trainer_pt_utils import AcceleratorConfig
from transformers.utils import is_in_notebook

from hf_localattn.errors import named_option, printable
from hf_localattn.settings.data import DataArguments
from hf_localattn.settings.model import ModelArguments as ModelArguments
from hf_localattn.settings.training import NewGenerationArguments, NewTrainingArguments
from hf_localattn.training.checks import check_values

if TYPE_CHECKING:
    from hf_localattn.tasks.task import Task

logger = logging.getLogger(__name__)


@dataclass
class TrainingArguments(NewTrainingArguments, StockTrainingArguments):
    """transformers' `TrainingArguments` with two learning rates, Lookahead, hyperparameter search and early stopping.

    With `early_stopping_patience`, the best model is loaded at the end. The model is then evaluated and saved after
    every epoch by default. `metric_for_best_model` and `greater_is_better` are None unless they are given: the task
    sets them to one of its scores, or the trainer to "loss".

    Raises:
        ValueError: A strategy contradicts early stopping, a value is invalid, or an option needs another one.
    """

    def __post_init__(self) -> None:
        self.chooses_saving = not (self.save_strategy is None and self.save_steps is None)
        if self.lookahead_alpha is not None and self.lookahead_steps is None:
            raise ValueError("--lookahead_alpha needs --lookahead_steps, such as --lookahead_steps 5.")
        if self.search_trials is not None and self.search_space is None:
            raise ValueError("--search_trials needs --search_space, a file of the values to try.")
        if self.early_stopping_patience is not None:
            self.load_best_model_at_end = True
            self.restore_callback_states_from_checkpoint = True  # keep counting evaluations when resumed
        if self.load_best_model_at_end:
            self._match_strategies()
        self.eval_strategy = self.eval_strategy or "no"
        self.save_strategy = self.save_strategy or "steps"
        check_values(self)
        if self.lookahead_steps is not None and self.lookahead_alpha is None:
            self.lookahead_alpha = 0.5  # as in the paper
        self.saves_by_time = self.save_steps is None and not self.load_best_model_at_end
        if self.save_steps is None:
            self.save_steps = self._usual_save_steps()
        metric = self.metric_for_best_model
        greater = self.greater_is_better
        if isinstance(self.accelerator_config, dict):
            with named_option("--accelerator_config"):
                AcceleratorConfig(**self.accelerator_config)
        super().__post_init__()
        # transformers has replaced None by the loss, which could also have been given.
        self.metric_for_best_model: str | None = metric
        self.greater_is_better: bool | None = greater

    def __getstate__(self) -> dict[str, Any]:
        # Trainer pickles its arguments into every checkpoint and uploads that file: it must not contain a token.
        return {**self.__dict__, "hub_token": None}

    def __copy__(self) -> TrainingArguments:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def _match_strategies(self) -> None:
        """Evaluate and save at the same steps, as loading the best model needs it."""
        for name in ("eval_strategy", "save_strategy"):
            if getattr(self, name) == "no":
                raise ValueError(
                    f"--{name} no leaves no best model, which --load_best_model_at_end and --early_stopping_patience"
                    " need: choose epoch or steps."
                )
        if self.eval_strategy is None:
            self.eval_strategy = self.save_strategy if self.save_strategy in ("steps", "epoch") else "epoch"
        self.save_strategy = self.save_strategy or self.eval_strategy

    def _usual_save_steps(self) -> float:
        """Return `save_steps` for runs that do not set it."""
        if self.load_best_model_at_end and self.eval_strategy == "steps":
            return self.eval_steps or self.logging_steps  # every evaluated model may be the best one
        return 0.1


def follow_rows(args: TrainingArguments, rows: int) -> TrainingArguments:
    """Return training arguments with `max_steps` for `min_train_steps`, if the epochs of these rows have fewer steps.

    Args:
        args: Training arguments.
        rows: Number of training rows.
    """
    fewest = args.min_train_steps
    batches = math.ceil(rows / (args.train_batch_size * args.world_size))
    of_epoch = max(1, math.ceil(batches / args.gradient_accumulation_steps))
    if fewest is None or args.max_steps > 0 or of_epoch * args.num_train_epochs >= fewest:
        return args
    message = "%d rows have %d steps in an epoch: training %d steps, %.1f epochs in place of %g (--min_train_steps)."
    logger.info(message, rows, of_epoch, fewest, fewest / of_epoch, args.num_train_epochs)
    return changed(args, max_steps=fewest)


@dataclass
class GenerationTrainingArguments(NewGenerationArguments, TrainingArguments, StockGenerationArguments):
    """`TrainingArguments` of this package and transformers' `Seq2SeqTrainingArguments` in one class."""


Arguments = TypeVar("Arguments", bound=StockTrainingArguments)


def changed(args: Arguments, **values: Any) -> Arguments:
    """Return a copy of training arguments with other values, which are not checked again."""
    copied = copy.copy(args)
    for name, value in values.items():
        setattr(copied, name, value)
    return copied


def argument_classes(task: type[Task]) -> tuple[type[ModelArguments], type[DataArguments], type[TrainingArguments]]:
    """Return the dataclasses of the options of a task: model, data, training."""
    return ModelArguments, task.DataArguments, GenerationTrainingArguments if task.generates else TrainingArguments


class _PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def set_up_logging(training_args: TrainingArguments) -> None:
    """Log this package, transformers and datasets to stdout, at the level in the arguments."""
    import datasets  # an extra, which the arguments do not need

    handler = logging.StreamHandler(sys.stdout)
    line = "%(asctime)s - %(levelname)s - %(name)s - %(message)s"
    handler.setFormatter(_PrintableFormatter(line, "%m/%d/%Y %H:%M:%S"))
    logging.basicConfig(handlers=[handler])
    level = training_args.get_process_log_level()
    # Show INFO messages of this package unless a log level is set.
    package_level = logging.INFO if training_args.log_level == "passive" and training_args.should_log else level
    logging.getLogger("hf_localattn").setLevel(package_level)
    if not (sys.stderr.isatty() or is_in_notebook()):
        training_args.disable_tqdm = True  # a bar would fill the file with its states
    # The bars of training and evaluation remain, and those of downloads.
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    if not training_args.disable_tqdm:
        enable_progress_bars()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()
