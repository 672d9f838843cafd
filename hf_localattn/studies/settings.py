"""Settings of a run: the arguments that its scores depend on, with digests of the files that they name."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from hf_localattn.families import FAMILIES
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.studies.results import as_written
from hf_localattn.tasks import DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments

# Options that may change between two calls of a command, as they change no score (or hardly one, as another number of
# rows in a batch to evaluate on does).
WITHOUT_EFFECT = {
    *("output_dir", "cache_dir", "token", "overwrite_cache", "preprocessing_num_workers", "disable_tqdm", "report_to"),
    *("run_name", "project", "use_cpu", "debug", "skip_memory_metrics", "resume_from_checkpoint", "local_rank"),
    *("per_device_eval_batch_size", "eval_accumulation_steps", "save_total_limit", "save_on_each_node"),
    *("activation_checkpointing", "gradient_checkpointing", "torch_empty_cache_steps", "dataloader_num_workers"),
    *("dataloader_pin_memory", "dataloader_persistent_workers", "dataloader_prefetch_factor", "include_for_metrics"),
    *("search_trials", "workers", "ray_address", "do_train", "do_eval", "do_predict"),
}
WITHOUT_EFFECT_PREFIXES = ("log_", "logging_", "hub_", "push_", "trackio_", "ddp_")

ADDED = {"skip_empty": False}
"""Options that are newer than the first results. At these defaults they do not count, so that old runs are known."""

FOLDERS = ("dataset_name", "backbone", "model_name_or_path")
"""Options that may name a folder, where it does not matter but what is in it."""


def settings_of(
    model_args: ModelArguments, data_args: DataArguments, training_args: TrainingArguments
) -> dict[str, Any]:
    """Return the options that scores depend on; for local files and folders their digests stand in for the paths."""
    options: dict[str, Any] = {}
    for arguments in (model_args, data_args):
        options |= {
            field.name: getattr(arguments, field.name) for field in dataclasses.fields(arguments) if field.init
        }
    for name, value in options.items():
        options[name] = digest_of(name, value)
    family = FAMILIES.get(options["family"])
    words = [_without_path(word) for word in options["local_config"]]
    options["local_config"] = words if family is None else [_former_word(family.config, word) for word in words]
    options |= training_args.to_dict()
    kept = {
        name: value
        for name, value in options.items()
        if name not in WITHOUT_EFFECT
        and not name.startswith(WITHOUT_EFFECT_PREFIXES)
        and not (name in ADDED and value == ADDED[name])
    }
    return as_written(kept)


def digest_of(name: str, value: Any) -> Any:
    """Return the digest of what an option names, if that is a file or folder of data or of a model; else its value."""
    if value is None or not (name.endswith("_file") or name in FOLDERS) or not Path(value).exists():
        return value
    path = Path(value)
    return _digest(path, tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in _files(path)))


def _without_path(assignment: str) -> str:
    name, equals, value = assignment.partition("=")
    is_folder = name.strip() == "parser" and Path(value).is_dir()
    return f"{name}{equals}{digest_of('backbone', value)}" if is_folder else assignment


def _former_word(config: type[LocalAttentionConfig], assignment: str) -> str:
    """Spell a `field=value` as version 0.1.0 did: folders of results are named after the settings in its words."""
    name, equals, value = assignment.partition("=")
    values = {new: former for former, new in config.renamed_values.get(name, {}).items()}
    names = {new: former for former, new in config.attribute_map.items()}
    return f"{names.get(name, name)}{equals}{values.get(value, value)}"


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


@lru_cache(maxsize=64)
def _digest(path: Path, state: tuple[tuple[str, int, int], ...]) -> str:
    """Return the digest of a file, or of all files of a folder; `state` tells when it has to be computed anew."""
    digest = hashlib.sha256()
    for file in _files(path):
        digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return f"sha256 {digest.hexdigest()}"
