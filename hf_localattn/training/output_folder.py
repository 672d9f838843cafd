"""The output folder: what may be in it, and from which checkpoint a run goes on."""

import json
import logging
import os
import re
import shutil
from pathlib import Path

from safetensors import safe_open
from transformers import PreTrainedModel, TrainerState

from hf_localattn.files import STAGING
from hf_localattn.models.modeling_local_attention import CONVERSION
from hf_localattn.training.arguments import TrainingArguments

logger = logging.getLogger(__name__)

# A leading underscore keeps a file out of Trainer's uploads to the Hub.
ASIDE = "_incomplete-"
# Trainer's order of writing: weights, optimizer and scheduler, random states, and last the state.
STATE = "trainer_state.json"
# What a configuration says of how it came to be, or learns from the tokenizer and the data once training begins.
VOLATILE = (
    *("_name_or_path", "transformers_version", "architectures", "auto_map", "dtype", "problem_type", "use_cache"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "hf_localattn_version"),
)
OPTIMIZER = ("optimizer.pt", "optimizer.bin", "optimizer", "optimizer_0", "global_step*", "rank*-optimizer.pt")


def prepare_output_folder(output_dir: str | os.PathLike[str], resume_from_checkpoint: str | bool | None) -> str | None:
    """Returns the checkpoint that training goes on from, None for a fresh start, before anything is written.

    A folder with complete checkpoints of an unfinished run is resumed by itself. Incomplete ones, left by a run that
    was killed while writing, are moved aside with a warning.

    Args:
        output_dir: need not exist.
        resume_from_checkpoint: a checkpoint folder, or True (also "true") for the last complete one in output_dir.

    Raises:
        ValueError: the folder holds something else or a finished run, or there is no such complete checkpoint.
    """
    folder = Path(output_dir)
    _check_is_folder(folder)
    wanted = resume_from_checkpoint
    if isinstance(wanted, str) and wanted.lower() in ("true", "false", ""):
        wanted = wanted.lower() == "true"
    if isinstance(wanted, str):
        if missing := _missing_parts(Path(wanted)):
            raise ValueError(f"--resume_from_checkpoint {wanted} is not a complete checkpoint: {missing}.")
        return wanted
    for staging in folder.glob(f"{STAGING}*"):  # of a run that was killed while saving
        shutil.rmtree(staging, ignore_errors=True)
    checkpoint = last_complete_checkpoint(folder) if folder.is_dir() else None
    if wanted:
        if checkpoint is None:
            raise ValueError(f"--resume_from_checkpoint: {folder} holds no complete checkpoint to resume from.")
        return checkpoint
    if checkpoint is None:
        check_unused(folder, "checkpoint to resume from")
        return None
    if (folder / STATE).exists():
        raise ValueError(
            f"--output_dir {folder} holds a finished run. To evaluate or predict with it give --model_name_or_path"
            f" {folder} without --do_train; to upload it run `hf-localattn push {folder} OWNER/NAME`. To train choose"
            f" another folder, or go on from its last checkpoint by"
            f" --resume_from_checkpoint {checkpoint} with more steps or epochs."
        )
    logger.warning("Resuming from %s. To start afresh choose another --output_dir, or empty this one.", checkpoint)
    return checkpoint


def check_unused(output_dir: str | os.PathLike[str], missing: str) -> None:
    """Raises ValueError if something is in a new run's way, naming what would let an old one go on from there."""
    folder = Path(output_dir)
    _check_is_folder(folder)
    if in_the_way := _contents(folder):
        raise ValueError(
            f"--output_dir {folder} is not empty ({_listed(in_the_way)}) and holds no {missing}."
            " Choose another folder, or empty this one."
        )


def last_complete_checkpoint(output_dir: str | os.PathLike[str]) -> str | None:
    """Returns the folder of the highest complete checkpoint, None if there is none; moves incomplete ones aside."""
    last = None
    for _, path in sorted(_checkpoints(Path(output_dir))):
        if missing := _missing_parts(path):
            aside = path.with_name(ASIDE + path.name)
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(path, aside)
            logger.warning("Ignoring the incomplete checkpoint %s (%s); moved to %s.", path, missing, aside.name)
        else:
            last = str(path)
    return last


def is_trained(checkpoint: str | os.PathLike[str], training_args: TrainingArguments) -> bool:
    """Returns whether a checkpoint has all of `max_steps`, or the early stopping ended its training."""
    state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
    if 0 < training_args.max_steps <= state.global_step:
        return True
    stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = training_args.early_stopping_patience
    return patience is not None and stopping.get("early_stopping_patience_counter", 0) >= patience


def check_same_model(checkpoint: str | os.PathLike[str], model: PreTrainedModel) -> None:
    """Raises ValueError if a checkpoint holds another model: other weights, or fields with other values."""
    path = Path(checkpoint) / "config.json"
    # As it would be saved: json knows neither tuples nor numbers as keys.
    own = json.loads(model.config.to_json_string(use_diff=False))
    for name, value in (json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}).items():
        if name in own and name not in VOLATILE and own[name] != value and not isinstance(value, dict):
            raise ValueError(
                f"{checkpoint} holds another model: its {name} is {value!r}, this one's is {own[name]!r}. Give the "
                "command it was made with, or another --output_dir."
            )
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    for file in sorted(Path(checkpoint).glob("*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (not a dict)
                if shapes.get(name) != (shape := weights.get_slice(name).get_shape()):
                    raise ValueError(
                        f"{checkpoint} holds another model: its {name} has the shape {shape}, this one's is "
                        f"{shapes.get(name, 'not there')}. Give the command it was made with, or another --output_dir."
                    )


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    matches = [(re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in folder.glob("checkpoint-*")]
    return [(int(match[1]), path) for match, path in matches if match and path.is_dir()]


def _missing_parts(checkpoint: Path) -> str:
    """What keeps a checkpoint from being resumed; empty if nothing does."""
    if not checkpoint.is_dir():
        return "no such folder"
    sharded = [path for path in checkpoint.glob("pytorch_model_fsdp*") if path.is_dir()]
    if not (any(checkpoint.glob("*.safetensors*")) or sharded):
        pickled = sorted(path.name for path in checkpoint.glob("pytorch_model*.bin"))
        return f"it has its weights in {pickled[0]}. {CONVERSION}" if pickled else "it has no weights"
    if not any(any(checkpoint.glob(pattern)) for pattern in OPTIMIZER):
        return "it has no optimizer state"
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"it has no whole {STATE}, which is written last"
    return ""


def _check_is_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file; choose a folder.")


def _contents(folder: Path) -> list[str]:
    """What is in the way of a run: everything but logs and hidden or set-aside files."""
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir())
    return [n for n in names if not n.startswith((".", ASIDE, STAGING)) and not n.endswith(".log") and n != "runs"]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
