"""The output folder: checks before a run writes to it, and the checkpoint to resume from."""

import logging
import os
import pickle
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint
from transformers import PreTrainedModel, TrainerState
from transformers.trainer_pt_utils import safe_globals

from hf_localattn.errors import join_names
from hf_localattn.files import STAGING, UNFINISHED, atomic_write, discard, remove_leftovers
from hf_localattn.installed.files import CONVERSION, tensor_shapes
from hf_localattn.parsing import parse_json, read_json
from hf_localattn.training.arguments import TrainingArguments

logger = logging.getLogger(__name__)

# A leading underscore keeps a file out of Trainer's uploads to the Hub.
ASIDE = "_incomplete-"
# Trainer writes this file last, after weights, optimizer, scheduler and random states.
STATE = "trainer_state.json"
# Fields that differ between a new configuration and the configuration of a checkpoint of the same model.
VOLATILE = (
    *("_name_or_path", "transformers_version", "architectures", "auto_map", "dtype", "problem_type", "use_cache"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "hf_localattn_version"),
)
PICKLES = ("optimizer.pt", "optimizer*.bin", "rank*-optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")
"""Files of a checkpoint that are written by `torch.save`."""

INDEX = {
    "torch": ("Size",),
    "torch.serialization": ("_get_layout",),
    "torch.distributed.checkpoint.metadata": (
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorStorageMetadata", "BytesStorageMetadata"),
        *("ChunkStorageMetadata", "TensorProperties", "_MEM_FORMAT_ENCODING"),
    ),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
    **dict.fromkeys(("pathlib", "pathlib._local"), ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")),
    "collections": ("OrderedDict",),
}
"""Classes that the index of a sharded checkpoint may name, by module."""

OPTIMIZER = ("optimizer.pt", "optimizer.bin", "optimizer", "optimizer_0", "global_step*", "rank*-optimizer.pt")


def prepare_output_folder(
    output_dir: str | os.PathLike[str], resume_from_checkpoint: str | bool | None, *, tidy: bool = True
) -> str | None:
    """Check the output folder before anything is written, and choose the checkpoint to resume from.

    An unfinished run is resumed from its last complete checkpoint. Incomplete checkpoints of a killed run are moved
    aside with a warning.

    Args:
        output_dir: the output folder. It need not exist.
        resume_from_checkpoint: a checkpoint folder, or True (also "true") for the last complete checkpoint in
            `output_dir`.
        tidy: remove or move aside the leftovers of a killed run. Set it in only one process of a run.

    Returns:
        The checkpoint folder; `output_dir` itself if the run was killed after training; None to start from the
        beginning.

    Raises:
        ValueError: the folder holds other files or a finished run, the checkpoint does not exist or is incomplete, or
            reading it would run code.
    """
    folder = Path(output_dir)
    _check_is_folder(folder)
    if tidy:
        remove_leftovers(folder)
    wanted = resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() in ("true", "false", ""):
        wanted = wanted.lower() == "true"
    if isinstance(wanted, str):
        if Path(wanted).absolute() == folder.absolute() and (folder / STATE).is_file():
            return wanted
        if missing := missing_parts(Path(wanted)):
            raise ValueError(f"--resume_from_checkpoint {wanted} is not a complete checkpoint: {missing}.")
        check_harmless(wanted)
        return wanted
    checkpoint = last_complete_checkpoint(folder, tidy=tidy) if folder.is_dir() else None
    is_killed = (folder / UNFINISHED).is_file()
    if checkpoint is not None:
        check_harmless(checkpoint)
    if wanted:
        if checkpoint is None:
            raise ValueError(f"--resume_from_checkpoint: {folder} holds no complete checkpoint to resume from.")
        return checkpoint
    if is_killed and (folder / STATE).is_file():
        logger.warning("The model in %s is trained, but not evaluated: continuing with the evaluation.", folder)
        return str(folder)
    if checkpoint is None:
        if not is_killed:  # the files of a killed run are from its final save; the save is repeated
            check_unused(folder, "checkpoint to resume from")
        return None
    if (folder / STATE).exists():
        raise ValueError(
            f"--output_dir {folder} holds a finished run. To evaluate or predict with it give --model_name_or_path"
            f" {folder} without --do_train; to upload it run `hf-localattn push {folder} OWNER/NAME`. To train another"
            f" model choose another folder; to train this one further give --resume_from_checkpoint {checkpoint} and"
            " more steps or epochs."
        )
    logger.warning(
        "Resuming from %s. To start from the beginning choose another --output_dir, or empty this one.", checkpoint
    )
    return checkpoint


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
    _check_is_folder(folder)
    if in_the_way := _contents(folder):
        raise ValueError(
            f"--output_dir {folder} is not empty ({join_names(in_the_way, 3)}) and holds no {missing}."
            " Choose another folder, or empty this one."
        )


def last_complete_checkpoint(output_dir: str | os.PathLike[str], *, tidy: bool = True) -> str | None:
    """Return the complete checkpoint with the most steps, or None.

    Args:
        output_dir: folder of the checkpoints.
        tidy: move incomplete checkpoints aside.
    """
    last = None
    for _, path in sorted(_checkpoints(Path(output_dir))):
        if not (missing := missing_parts(path)):
            last = str(path)
        elif tidy:
            aside = path.with_name(ASIDE + path.name)
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(path, aside)
            logger.warning("Ignoring the incomplete checkpoint %s (%s); moved to %s.", path, missing, aside.name)
    return last


def remove_older_checkpoints(written: Path, limit: int | None, best: str | None) -> None:
    """Remove the oldest checkpoints, as Trainer does for `save_total_limit`.

    If the process is killed during the removal, no checkpoint is left partly removed.

    Args:
        written: the new checkpoint. It is kept.
        limit: number of checkpoints to keep. None or 0 keeps all.
        best: the best checkpoint. It is kept.
    """
    if not limit or limit < 0:
        return
    kept = {written.name, Path(best or written).name}
    others = [path for _, path in _checkpoints(written.parent) if path.name not in kept]
    others.sort(key=lambda path: path.stat().st_mtime)
    for path in others[: max(0, len(others) + len(kept) - max(limit, len(kept)))]:
        discard(path)


def is_last(checkpoint: Path) -> bool:
    """Return True if no other checkpoint in the same folder has more steps."""
    steps = {path.name: step for step, path in _checkpoints(checkpoint.parent)}
    return steps.get(checkpoint.name) == max(steps.values(), default=0)


def check_harmless(checkpoint: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if a file of a checkpoint would run code when training is resumed from it.

    Trainer and accelerate load the states of optimizer, scheduler, scaler and random numbers with `weights_only`. If
    a state contains code, the run ends with a traceback. torch unpickles the index of a sharded FSDP checkpoint
    (`.metadata`) without any check.
    """
    folder = Path(checkpoint)
    states = sorted(file for pattern in PICKLES for file in folder.glob(pattern) if file.is_file())
    for path in [*states, *sorted(folder.glob("*/.metadata"))]:
        try:
            names = _foreign_names(path)
        except Exception as error:  # damaged files raise errors of any type
            raise ValueError(f"{path} is damaged ({error}). Resume from another checkpoint.") from None
        if names:
            raise ValueError(
                f"{path} would run code when it is read (it names {', '.join(names)}), which Trainer's checkpoints"
                " never do: do not resume from it. Remove its folder, or choose another checkpoint."
            )


def _foreign_names(path: Path) -> list[str]:
    """Return the names in a pickle that a checkpoint must not contain."""
    if path.name != ".metadata":
        with safe_globals():  # the NumPy names that Trainer also allows
            return get_unsafe_globals_in_checkpoint(path)
    try:
        with path.open("rb") as stream:
            _Index(stream).load()
    except _ForeignName as error:
        return [str(error)]
    return []


class _ForeignName(pickle.UnpicklingError):
    """The index of a checkpoint contains a name that is not in `INDEX`."""


class _Index(pickle.Unpickler):
    """Unpickler for the index of a sharded checkpoint, restricted to the classes of `INDEX`."""

    def find_class(self, module: str, name: str) -> Any:
        if name in INDEX.get(module, ()) or (module == "torch" and isinstance(getattr(torch, name, 0), torch.dtype)):
            return super().find_class(module, name)
        raise _ForeignName(f"{module}.{name}")


def is_trained(checkpoint: str | os.PathLike[str], training_args: TrainingArguments) -> bool:
    """Return True if a checkpoint has reached `max_steps`, or early stopping has ended its training."""
    state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
    if 0 < training_args.max_steps <= state.global_step:
        return True
    stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = training_args.early_stopping_patience
    return patience is not None and stopping.get("early_stopping_patience_counter", 0) >= patience


def check_same_model(checkpoint: str | os.PathLike[str], model: PreTrainedModel) -> None:
    """Raise `ValueError` if a checkpoint and a model differ in configuration or weights."""
    path = Path(checkpoint) / "config.json"
    # Converted to JSON and back, because JSON has neither tuples nor numbers as keys.
    fields = parse_json(model.config.to_json_string(use_diff=False), type(model.config).__name__)
    for name, value in (read_json(path) if path.is_file() else {}).items():
        if name in fields and name not in VOLATILE and fields[name] != value and not isinstance(value, dict):
            raise ValueError(
                f"{checkpoint} holds another model: its {name} is {value!r}, but now it is {fields[name]!r}. Repeat"
                " the command of that run, or choose another --output_dir."
            )
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    for file in sorted(Path(checkpoint).glob("*.safetensors")):
        for name, shape in tensor_shapes(file).items():
            if shapes.get(name) != shape:
                raise ValueError(
                    f"{checkpoint} holds another model: its {name} has the shape {shape}, but now it has"
                    f" {shapes.get(name, 'no such weight')}. Repeat the command of that run, or choose another"
                    " --output_dir."
                )


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    matches = [(re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in folder.glob("checkpoint-*")]
    return [(int(match[1]), path) for match, path in matches if match and path.is_dir()]


def missing_parts(checkpoint: Path) -> str:
    """Return the reason why training cannot resume from a checkpoint, or an empty text."""
    if not checkpoint.is_dir():
        return "no such folder"
    sharded = [path for path in checkpoint.glob("pytorch_model_fsdp*") if path.is_dir()]
    if not (any(checkpoint.glob("*.safetensors*")) or sharded):
        pickled = sorted(path.name for path in checkpoint.glob("pytorch_model*.bin"))
        return f"it has its weights in {pickled[0]}. {CONVERSION}" if pickled else "it has no weights"
    if not any(any(checkpoint.glob(pattern)) for pattern in OPTIMIZER):
        return "it has no optimizer state"
    try:
        TrainerState.load_from_json(str(checkpoint / STATE))
    except (OSError, ValueError, TypeError):
        return f"it has no complete {STATE}, which is written last"
    if (checkpoint / "optimizer.pt").is_file():
        # Without these files Trainer continues silently with a new optimizer and other random numbers.
        if not (checkpoint / "scheduler.pt").is_file():
            return "it has no scheduler.pt"
        if not any(checkpoint.glob("rng_state*.pth")):
            return "it has no random states (rng_state.pth)"
    return _torn_file(checkpoint)


def _torn_file(checkpoint: Path) -> str:
    """Describe the first missing or truncated file of a checkpoint, or return an empty text."""
    try:
        for path in checkpoint.glob("*.safetensors.index.json"):
            shards = set(read_json(path)["weight_map"].values())
            if missing := sorted(name for name in shards if not (checkpoint / name).is_file()):
                return f"it has no {missing[0]}"
        for path in checkpoint.glob("*.safetensors"):
            tensor_shapes(path)  # compares sizes
        for path in (path for pattern in PICKLES for path in checkpoint.glob(pattern)):
            with zipfile.ZipFile(path):  # reads the table of contents at the end of the file
                pass
    except (OSError, ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        return f"its {path.name} is damaged: {' '.join(str(error).split())}"
    return ""


def _check_is_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file; choose a folder.")


def _contents(folder: Path) -> list[str]:
    """Return the names in a folder, except logs, empty folders, and hidden or set-aside files."""
    return sorted(path.name for path in folder.iterdir() if _is_in_the_way(path)) if folder.is_dir() else []


def _is_in_the_way(path: Path) -> bool:
    if path.name.startswith((".", ASIDE, STAGING)) or path.name.endswith(".log") or path.name == "runs":
        return False
    return not path.is_dir() or any(path.iterdir())
