"""The output folder of a run: what it was called with, whether it is finished, and where to resume it.

`run.json` has the arguments of the run and digests of its data. `.hf-localattn-unfinished` is there until the run has
ended. A checkpoint is whole if it has the state of the optimizer and `trainer_state.json`, which is written last.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerState

from hf_localattn.data.rows import PLACE
from hf_localattn.errors import join_names
from hf_localattn.files import STAGING, UNFINISHED, atomic_write, discard, remove_leftovers
from hf_localattn.names import RUN, STATE, read_run
from hf_localattn.settings.option import FREE, LENGTH, values_of
from hf_localattn.settings.stock import STOCK, all_options
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.run_loss import LOSSES

logger = logging.getLogger(__name__)

OPTIMIZER = "optimizer*"
"""Files or folder of Trainer with the state of the optimizer."""

RANDOM_STATES = "rng_state*.pth"
"""Files of Trainer with the random state, one for each process."""


def prepare_output_folder(
    output_dir: str | os.PathLike[str], resume_from_checkpoint: str | bool | None, *, tidy: bool = True
) -> str | None:
    """Check the output folder before anything is written, and choose the checkpoint to resume from.

    An unfinished run is resumed from its last whole checkpoint.

    Args:
        output_dir: The output folder. It need not exist.
        resume_from_checkpoint: A checkpoint folder, or True (also "true") for the last whole checkpoint in
            `output_dir`.
        tidy: Remove the leftovers of a killed run. Set it in only one process of a run.

    Returns:
        The checkpoint folder; None to start from the beginning.
    """
    folder = Path(output_dir)
    wanted = resume_from_checkpoint
    if tidy:
        remove_leftovers(folder)
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
    if wanted and checkpoint is None:
        raise ValueError(
            f"--resume_from_checkpoint: {folder} holds no whole checkpoint with the state of the optimizer. A"
            " finished run keeps that state only with --keep_checkpoints."
        )
    if checkpoint is None and not is_killed:  # the files of a killed run are written again
        check_unused(folder, "checkpoint to resume from")
    if checkpoint is not None:
        # It compares steps with shares of a run (0.05); `run.json` has compared all arguments.
        logging.getLogger("transformers.trainer_utils").setLevel(logging.ERROR)
    return checkpoint


def check_unused(output_dir: str | os.PathLike[str], missing: str) -> None:
    """Raise `ValueError` if a folder has files, other than logs, hidden files and half-written checkpoints.

    `missing` is the file that an old run would need to continue, for the error message.
    """
    folder = Path(output_dir)
    in_the_way = []
    for path in sorted(folder.glob("*")):
        is_passed_over = path.name.startswith((".", STAGING, "checkpoint-")) or path.name == "runs"
        if is_passed_over or path.suffix == ".log":
            continue
        if path.is_file() or any(map(Path.is_file, path.rglob("*"))):
            in_the_way.append(path.name)
    if in_the_way:
        raise ValueError(
            f"--output_dir {folder} is not empty ({join_names(in_the_way, 3)}) and holds no {missing}."
            " Choose another folder, or empty this one."
        )


def last_complete_checkpoint(output_dir: str | os.PathLike[str]) -> str | None:
    """Return the whole checkpoint with the most steps, or None. Half-written ones are passed over with a warning."""
    by_step = {}
    for path in Path(output_dir).glob("checkpoint-*"):
        match = re.fullmatch(r"checkpoint-(\d+)", path.name)
        if match:
            by_step[int(match[1])] = path
    for _, path in sorted(by_step.items(), reverse=True):
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
    if len(list(checkpoint.glob(RANDOM_STATES))) < len(list(checkpoint.glob(LOSSES))):
        return False  # of a run of several processes, one of which was late
    return any(checkpoint.glob(OPTIMIZER)) or any(checkpoint.glob("global_step*"))  # the latter: DeepSpeed


def is_trained(checkpoint: str | os.PathLike[str], training_args: TrainingArguments) -> bool:
    """Return True if a checkpoint has reached `max_steps`, or early stopping has ended its training."""
    state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
    if 0 < training_args.max_steps <= state.global_step:
        return True
    stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = training_args.early_stopping_patience
    return patience is not None and stopping.get("early_stopping_patience_counter", 0) >= patience


def mark_unfinished(output_dir: str | os.PathLike[str]) -> None:
    """Mark the output folder of a run as unfinished."""
    folder = Path(output_dir)
    if not (folder / STATE).exists():  # the model of a finished run is valid until further training has ended
        atomic_write(folder / UNFINISHED, "")


def mark_finished(output_dir: str | os.PathLike[str]) -> None:
    """Mark the output folder of a run as finished."""
    Path(output_dir, UNFINISHED).unlink(missing_ok=True)


def remove_checkpoints(output_dir: str | os.PathLike[str], *, wanted: bool) -> None:
    """Remove the checkpoints of a finished run: all of each, or if they are `wanted` the states of the optimizer."""
    for path in Path(output_dir).glob(f"checkpoint-*/{OPTIMIZER}" if wanted else "checkpoint-*"):
        discard(path) if path.is_dir() else path.unlink()


def arguments_of(*arguments: Any) -> dict[str, Any]:
    """Return the fields of dataclasses of arguments that change the result of a run, as JSON values."""
    fixed: dict[str, Any] = {}
    for part in arguments:
        options = all_options(type(part))
        values = values_of(part) | (part.to_dict() if hasattr(part, "to_dict") else {})
        fixed |= {name: value for name, value in values.items() if name not in options or options[name].result != FREE}
    return json.loads(json.dumps(fixed, default=str))


def digest_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the number of rows and a digest of them."""
    digest = hashlib.sha256()
    count = 0
    for row in rows:
        content = {name: value for name, value in row.items() if name != PLACE}  # the file may have moved
        digest.update(json.dumps(content, sort_keys=True, default=str).encode())
        count += 1
    return f"{count} rows, sha256 {digest.hexdigest()[:16]}"


def check_same_run(folder: str | Path, arguments: Mapping[str, Any], *, is_longer: bool = False) -> None:
    """Raise `ValueError` if the run in an output folder has other arguments.

    Args:
        folder: The output folder. Without a file `run.json` nothing is checked.
        arguments: Result of `arguments_of`, or digests of data by split.
        is_longer: The number of steps and epochs may differ.
    """
    recorded = read_run(folder)
    for name, value in arguments.items():
        is_fixed = name in recorded and not (is_longer and name in STOCK and STOCK[name].result == LENGTH)
        if is_fixed and recorded[name] != value:
            raise ValueError(
                f"--output_dir {folder} holds another run: its {name} is {recorded[name]!r}, but now it is"
                f" {value!r}. Repeat the command of that run, or choose another --output_dir."
            )


def save_arguments(folder: str | Path, arguments: Mapping[str, Any]) -> None:
    """Write the arguments and digests of a run to its output folder."""
    atomic_write(Path(folder, RUN), json.dumps(arguments, indent=2, ensure_ascii=False) + "\n")
