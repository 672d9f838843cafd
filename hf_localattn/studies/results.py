"""Result files of studies, and the settings that identify a command or trial."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hf_localattn.data.rows import shorten
from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json
from hf_localattn.tasks import DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.output_folder import check_unused

# Options that may differ when a command is repeated. They have no effect on scores, or a negligible one (batch size of
# the evaluation).
WITHOUT_EFFECT = {
    *("output_dir", "cache_dir", "token", "overwrite_cache", "preprocessing_num_workers", "disable_tqdm", "report_to"),
    *("run_name", "project", "use_cpu", "debug", "skip_memory_metrics", "resume_from_checkpoint", "local_rank"),
    *("per_device_eval_batch_size", "eval_accumulation_steps", "save_total_limit", "save_on_each_node"),
    *("activation_checkpointing", "gradient_checkpointing", "torch_empty_cache_steps", "dataloader_num_workers"),
    *("dataloader_pin_memory", "dataloader_persistent_workers", "dataloader_prefetch_factor", "include_for_metrics"),
    *("search_trials", "workers", "ray_address", "do_train", "do_eval", "do_predict", "fold"),
}
WITHOUT_EFFECT_PREFIXES = ("log_", "logging_", "hub_", "push_", "trackio_", "ddp_")

FOLDERS = ("dataset_name", "backbone", "model_name_or_path")
"""Options that may name a folder. The folder is identified by its content, not by its name."""


def read_results(path: Path, settings: Mapping[str, Any], what: str) -> dict[str, Any] | None:
    """Read the results of an earlier call of the same command; return None if the folder is empty.

    Args:
        path: result file in the output folder, with an entry "settings".
        settings: settings of this command.
        what: kind of results, for error messages.

    Raises:
        ValueError: the folder holds results of another command, or other files.
    """
    if not path.is_file():
        check_unused(path.parent, f"{path.name} to continue")
        return None
    known = read_json(path)
    check_same_settings(path, entry(known, "settings", dict, path), settings, f"{what} of another command")
    return known


def check_same_settings(path: Path, known: Mapping[str, Any], settings: Mapping[str, Any], what: str) -> None:
    """Raise `ValueError` if a result file has other settings. Options that only one side has are ignored."""
    for name, value in known.items():
        if name in settings and settings[name] != value:
            raise ValueError(
                f"--output_dir {path.parent} holds the {what}: its {name} is {value!r}, but now it is"
                f" {settings[name]!r}. Repeat the command of that run, or choose another --output_dir."
            )


def entry(found: Mapping[str, Any], name: str, kind: type, path: Path) -> Any:
    """Return an entry of a result file.

    Args:
        found: content of the file.
        name: name of the entry.
        kind: type of the entry.
        path: the file, for error messages.

    Raises:
        ValueError: the entry is missing or has another type.
    """
    value = found.get(name)
    if not isinstance(value, kind):
        raise ValueError(
            f"{path}: its {name!r} must be a {kind.__name__}; found {shorten(value)}. Restore the original file, or"
            " remove it."
        )
    return value


def write_results(path: Path, found: Mapping[str, Any]) -> None:
    """Write results as JSON. NaN and infinities become null, because JSON does not have them."""
    atomic_write(path, json.dumps(_without_nan(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def as_written(found: Mapping[str, Any]) -> dict[str, Any]:
    """Convert results to the values that `write_results` stores."""
    return json.loads(json.dumps(_without_nan(found), default=str))


def _without_nan(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _without_nan(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_without_nan(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def settings_of(
    model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> dict[str, Any]:
    """Return the options that affect scores. Paths of local files and folders are replaced by digests."""
    options: dict[str, Any] = {}
    for arguments in (model_args, data_args):
        options |= {
            field.name: getattr(arguments, field.name) for field in dataclasses.fields(arguments) if field.init
        }
    for name, value in options.items():
        options[name] = digest_of(name, value)
    options["local_config"] = [_without_path(word) for word in options["local_config"]]
    options |= training_args.to_dict()
    kept = {
        name: value
        for name, value in options.items()
        if name not in WITHOUT_EFFECT and not name.startswith(WITHOUT_EFFECT_PREFIXES)
    }
    return as_written(kept)


def digest_of(name: str, value: Any) -> Any:
    """Return the digest of the file or folder that an option names; return other values unchanged."""
    if value is None or not (name.endswith("_file") or name in FOLDERS) or not Path(value).exists():
        return value
    path = Path(value)
    return _digest(path, tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in _files(path)))


def _without_path(assignment: str) -> str:
    name, equals, value = assignment.partition("=")
    is_folder = name.strip() == "parser" and Path(value).is_dir()
    return f"{name}{equals}{digest_of('backbone', value)}" if is_folder else assignment


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


@lru_cache(maxsize=64)
def _digest(path: Path, state: tuple[tuple[str, int, int], ...]) -> str:
    """Return the digest of a file, or of all files of a folder. `state` is part of the cache's key."""
    digest = hashlib.sha256()
    for file in _files(path):
        digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return f"sha256 {digest.hexdigest()}"
