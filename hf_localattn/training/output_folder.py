"""The output folder: checks before a run writes to it, and the checkpoint to resume from."""

import logging
import os
import re
from pathlib import Path

from transformers import TrainerState

from hf_localattn.errors import join_names
from hf_localattn.files import STAGING, UNFINISHED, atomic_write, discard, remove_leftovers
from hf_localattn.training.arguments import TrainingArguments

logger = logging.getLogger(__name__)

STATE = "trainer_state.json"
"""File that Trainer writes last, after weights, optimizer, scheduler and random states."""

OPTIMIZER = "optimizer*"
"""Files or folder of Trainer with the state of the optimizer."""


def prepare_output_folder(
    output_dir: str | os.PathLike[str], resume_from_checkpoint: str | bool | None, *, tidy: bool = True
) -> str | None:
    """Check the output folder before anything is written, and choose the checkpoint to resume from.

    An unfinished run is resumed from its last whole checkpoint.

    Args:
        output_dir: the output folder. It need not exist.
        resume_from_checkpoint: a checkpoint folder, or True (also "true") for the last whole checkpoint in
            `output_dir`.
        tidy: remove the leftovers of a killed run, *optional*, defaults to True. Set it in only one process of a run.

    Returns:
        The checkpoint folder; None to start from the beginning.

    Raises:
        ValueError: the folder holds other files or a finished run, or the checkpoint does not exist or is not whole.
    """
    folder = Path(output_dir)
    if tidy:
        remove_leftovers(folder)
    wanted = resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() in ("true", "false", ""):
        wanted = wanted.lower() == "true"
    if isinstance(wanted, str):
        if not is_whole(Path(wanted)):
            raise ValueError(
                f"--resume_from_checkpoint {wanted} is not a whole checkpoint with the state of the optimizer, which a"
                " finished run keeps only with --keep_checkpoints. Choose another one, or give --model_name_or_path"
                f" {wanted}."
            )
        if Path(wanted).absolute().parent != folder.absolute() and any(Path(wanted).glob("*/.metadata")):
            raise ValueError(
                f"--resume_from_checkpoint {wanted} is sharded, and torch unpickles its index: resume such a run in"
                " its own --output_dir."
            )
        return wanted
    is_killed = (folder / UNFINISHED).is_file()
    if not wanted and (folder / STATE).exists() and not is_killed:
        raise ValueError(
            f"--output_dir {folder} holds a finished run. To evaluate or predict with it give --model_name_or_path"
            f" {folder} without --do_train; to train another model choose another folder; to train this one further,"
            " if it was trained with --keep_checkpoints, give --resume_from_checkpoint true and more steps or epochs."
        )
    checkpoint = last_complete_checkpoint(folder)
    if wanted:
        if checkpoint is None:
            raise ValueError(
                f"--resume_from_checkpoint: {folder} holds no whole checkpoint with the state of the optimizer. A"
                " finished run keeps that state only with --keep_checkpoints."
            )
        return checkpoint
    if checkpoint is None:
        if not is_killed:  # the files of a killed run are written again
            check_unused(folder, "checkpoint to resume from")
        return None
    logger.warning(
        "Resuming from %s. To start from the beginning choose another --output_dir, or empty this one.", checkpoint
    )
    return checkpoint


def remove_optimizers(output_dir: str | os.PathLike[str]) -> None:
    """Remove the optimizer states of all checkpoints, which are twice as large as the model."""
    for path in Path(output_dir).glob(f"checkpoint-*/{OPTIMIZER}"):
        discard(path) if path.is_dir() else path.unlink()


def mark_unfinished(output_dir: str | os.PathLike[str]) -> None:
    """Mark the output folder of a run as unfinished."""
    folder = Path(output_dir)
    if not (folder / STATE).exists():  # the model of a finished run is valid until further training has ended
        atomic_write(folder / UNFINISHED, "")


def mark_finished(output_dir: str | os.PathLike[str]) -> None:
    """Mark the output folder of a run as finished."""
    Path(output_dir, UNFINISHED).unlink(missing_ok=True)


def check_unused(output_dir: str | os.PathLike[str], missing: str) -> None:
    """Raise `ValueError` if a folder is not empty.

    Args:
        output_dir: the folder. It need not exist.
        missing: the file that an old run needs to continue, for the error message.
    """
    folder = Path(output_dir)
    if in_the_way := sorted(path.name for path in folder.glob("*") if _is_in_the_way(path)):
        raise ValueError(
            f"--output_dir {folder} is not empty ({join_names(in_the_way, 3)}) and holds no {missing}."
            " Choose another folder, or empty this one."
        )


def last_complete_checkpoint(output_dir: str | os.PathLike[str]) -> str | None:
    """Return the whole checkpoint with the most steps, or None. Half-written ones are passed over with a warning."""
    matches = [(re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in Path(output_dir).glob("checkpoint-*")]
    for _, path in sorted(((int(match[1]), path) for match, path in matches if match), reverse=True):
        if is_whole(path):
            return str(path)
        logger.warning("Passing over the checkpoint %s, which is not whole.", path)
    return None


def is_whole(checkpoint: Path) -> bool:
    """Return True if the file that is written last is there and complete, and the state of the optimizer, too."""
    try:
        TrainerState.load_from_json(str(checkpoint / STATE))
    except (OSError, ValueError, TypeError):
        return False
    return any(path for name in (OPTIMIZER, "global_step*") for path in checkpoint.glob(name))  # the second: DeepSpeed


def is_trained(checkpoint: str | os.PathLike[str], training_args: TrainingArguments) -> bool:
    """Return True if a checkpoint has reached `max_steps`, or early stopping has ended its training."""
    state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
    if 0 < training_args.max_steps <= state.global_step:
        return True
    stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = training_args.early_stopping_patience
    return patience is not None and stopping.get("early_stopping_patience_counter", 0) >= patience


def _is_in_the_way(path: Path) -> bool:
    """Return False for logs, empty folders, hidden files and half-written checkpoints."""
    if path.name.startswith((".", STAGING, "checkpoint-")) or path.name.endswith(".log") or path.name == "runs":
        return False
    return not path.is_dir() or any(path.iterdir())
