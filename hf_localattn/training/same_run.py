"""Check that a command which is repeated to resume a run has the arguments and the data of that run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hf_localattn.data.rows import PLACE
from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json

RUN = "run.json"
"""File of the output folder with the arguments and digests of the data."""

MAY_DIFFER = (
    *("output_dir", "resume_from_checkpoint", "do_eval", "do_predict", "per_device_eval_batch_size", "run_name"),
    *("save_steps", "save_total_limit", "keep_checkpoints"),
    *("use_cpu", "workers", "ray_address", "local_rank", "report_to", "project"),
    *("disable_tqdm", "debug", "skip_memory_metrics", "eval_accumulation_steps", "preprocessing_num_workers"),
    *("overwrite_cache", "cache_dir", "token", "gradient_checkpointing", "torch_empty_cache_steps"),
    *("train_file", "validation_file", "test_file"),  # digests tell if the rows are others
)
"""Arguments that do not change the result, or negligibly."""

MAY_DIFFER_PREFIXES = ("log_", "logging_", "hub_", "push_", "trackio_", "ddp_", "dataloader_")

LENGTHS = ("num_train_epochs", "max_steps")
"""Arguments that may differ with `--resume_from_checkpoint`, which trains a finished run further."""


def arguments_of(*arguments: Any) -> dict[str, Any]:
    """Return the arguments of a run that change its result, as JSON values.

    Args:
        *arguments: Dataclasses, such as those of model, data and training.
    """
    found: dict[str, Any] = {}
    for one in arguments:
        values = one.to_dict() if hasattr(one, "to_dict") else vars(one)
        names = (field.name for field in dataclasses.fields(one) if field.name in values)
        found |= {name: values[name] for name in names if not _may_differ(name)}
    return json.loads(json.dumps(found, default=str))


def digest_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the number of rows and a digest of them."""
    digest, number = hashlib.sha256(), 0
    for row in rows:
        known = {name: value for name, value in row.items() if name != PLACE}  # the file may have moved
        digest.update(json.dumps(known, sort_keys=True, default=str).encode())
        number += 1
    return f"{number} rows, sha256 {digest.hexdigest()[:16]}"


def check_same_run(folder: str | Path, arguments: Mapping[str, Any], *, is_longer: bool = False) -> None:
    """Raise `ValueError` if the run in an output folder has other arguments.

    Args:
        folder: The output folder. Without a file `run.json` nothing is checked.
        arguments: Result of `arguments_of`, or digests of data by split.
        is_longer (*optional*, defaults to False): If True, the number of steps and epochs may differ.
    """
    path = Path(folder, RUN)
    known = read_json(path) if path.is_file() else {}
    for name in arguments:
        is_fixed = name in known and not (is_longer and name in LENGTHS)
        if is_fixed and known[name] != arguments[name]:
            raise ValueError(
                f"--output_dir {folder} holds another run: its {name} is {known[name]!r}, but now it is"
                f" {arguments[name]!r}. Repeat the command of that run, or choose another --output_dir."
            )


def save_run(folder: str | Path, arguments: Mapping[str, Any]) -> None:
    """Write the arguments and digests of a run to its output folder."""
    atomic_write(Path(folder, RUN), json.dumps(arguments, indent=2, ensure_ascii=False) + "\n")


def _may_differ(name: str) -> bool:
    return name in MAY_DIFFER or name.startswith(MAY_DIFFER_PREFIXES)
