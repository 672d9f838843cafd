"""One of the runs that belong together, such as a fold or a seed: taken up again where it was killed."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

from hf_localattn.data.folds import Fold
from hf_localattn.files import discard
from hf_localattn.tasks import DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.output_folder import STATE, last_complete_checkpoint
from hf_localattn.training.run import Prepare, Run

logger = logging.getLogger(__name__)


def prepare_part(
    prepare: Prepare,
    model_args: ModelArguments,
    data_args: DataArguments,
    training_args: TrainingArguments,
    *,
    folder: Path,
    seed: int,
    fold: Fold | None = None,
) -> Run:
    """Return a run in a folder of its own that trains, or takes up what was trained there, and then is scored.

    Args:
        prepare: the task's.
        model_args, data_args, training_args: of all the runs; they stay as they are.
        folder: of this run. What a run left there that was killed before its first checkpoint is removed.
        seed: of this run.
        fold: the part of the data that it works on; by default all of them.

    Raises:
        ValueError, OSError: of `prepare`.
    """
    # A task's `prepare` writes into them.
    model_args, data_args, training_args = copy.copy(model_args), copy.copy(data_args), copy.copy(training_args)
    if fold is not None:
        data_args.folds, data_args.fold = fold.count, fold
        training_args.do_eval = training_args.do_predict = True
    training_args.output_dir = str(folder)
    training_args.seed = seed
    training_args.resume_from_checkpoint = None
    training_args.do_train = True
    if (folder / STATE).exists():
        logger.warning("%s is trained, but not scored.", folder)
        training_args.resume_from_checkpoint = str(folder)
    elif folder.is_dir() and training_args.should_save and last_complete_checkpoint(folder) is None:
        discard(folder)  # it was killed before its first checkpoint
    return prepare(model_args, data_args, training_args)
