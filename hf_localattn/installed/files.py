"""Asking the policy for a checkpoint in a folder or on the Hub, and reading of weights as data."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from huggingface_hub.utils.tqdm import enable_progress_bars
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from hf_localattn.errors import CheckpointError, one_line
from hf_localattn.graphs import EXPORT_SETTINGS
from hf_localattn.installed.policy import NO_SAFETENSORS, check_folder
from hf_localattn.installed.policy_table import CONVERSION

LOCATION = ("cache_dir", "revision", "token", "local_files_only", "force_download", "subfolder")
"""Arguments of `from_pretrained` that say where a checkpoint is."""

JUDGED_ON_HUB = ("config.json", "tokenizer_config.json", "special_tokens_map.json")
JUDGED_WITH_WEIGHTS = ("adapter_config.json", "generation_config.json", "model.safetensors.index.json")
"""Files of a checkpoint on the Hub that are downloaded first, to be judged."""

TIED = "but both are absent from the checkpoint"
"""Part of a warning that `quiet_weights` drops."""


def check_checkpoint(checkpoint: Any, arguments: Mapping[str, Any], *, weights: bool = True) -> None:
    """Raise `CheckpointError` if a checkpoint sets what a stranger's may not.

    Args:
        checkpoint: Folder or Hub id. A path of a single file is not judged.
        arguments: Arguments of `from_pretrained`, among which `LOCATION` says where the checkpoint is.
        weights (*optional*, defaults to True): If False, its weights are not read.
    """
    place = os.fspath(checkpoint)
    if os.path.isdir(place):
        check_folder(Path(place, arguments.get("subfolder") or ""), weights=weights)
    elif not os.path.exists(place) and (folder := _downloaded(place, arguments, weights=weights)):
        check_folder(folder, weights=weights, whole=False)


def _downloaded(checkpoint: str, arguments: Mapping[str, Any], *, weights: bool) -> Path | None:
    """Return the folder in the Hub's cache with the files that are judged; None if there are none."""
    options = _location(arguments)
    folder = None
    for name in (*JUDGED_ON_HUB, *(JUDGED_WITH_WEIGHTS if weights else ())):
        if path := _cached(checkpoint, name, options):
            folder = path.parent
            depth = len(PurePosixPath(options.get("subfolder") or "").parts)
            options["revision"] = (folder, *folder.parents)[depth].name  # all are of one commit
    return folder


def _location(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {option: arguments[option] for option in LOCATION if arguments.get(option) is not None}


def _cached(checkpoint: str, name: str, options: Mapping[str, Any]) -> Path | None:
    """Return a file of a checkpoint on the Hub; None if there is none, or loading itself says why it cannot be had."""
    try:
        return Path(cached_file(checkpoint, name, **options))
    except OSError:
        return None


@contextmanager
def as_data(name_or_path: Any, arguments: dict[str, Any]) -> Iterator[None]:
    """Ask the policy for a checkpoint, and let `from_pretrained` read only its safetensors files within the block.

    `name_or_path` is None if the weights are among the arguments, in which `use_safetensors` is set.

    Raises:
        ValueError: `use_safetensors` is False.
        CheckpointError: The checkpoint sets what a stranger's may not, or its weights are no safetensors.
        OSError: There are no safetensors files.
    """
    if not arguments.setdefault("use_safetensors", True):
        raise ValueError(f"`use_safetensors={arguments['use_safetensors']}` would unpickle weights. {CONVERSION}")
    adapter = (arguments.get("adapter_kwargs") or {}).get("_adapter_model_path")
    for checkpoint in (name_or_path, adapter):
        if checkpoint is not None:
            check_checkpoint(checkpoint, arguments)
    try:
        with quiet_weights():
            yield
    except CheckpointError:
        raise
    except SafetensorError as error:
        raise CheckpointError(f"{name_or_path}: a file of its weights: {NO_SAFETENSORS.format(error)}") from error
    except OSError as error:
        is_absence = "safetensors" in str(error) and " file named" in str(error)  # which transformers says
        is_answer = is_absence or hasattr(error, "response")  # it looks for a conversion, too
        is_remote = is_answer and not os.path.isdir(str(name_or_path))
        if is_remote and _cached(name_or_path, EXPORT_SETTINGS, _location(arguments)):
            raise OSError(
                f"{name_or_path!r} is an exported folder on the Hub: run `hf download {name_or_path} --local-dir"
                " FOLDER`, and give FOLDER."
            ) from error
        if not is_absence:
            raise
        raise OSError(f"{str(error).rstrip('.')}, and other formats are not read. {CONVERSION}") from error
    except Exception as error:
        if name_or_path is not None:
            _check_sizes(name_or_path, _location(arguments))
        if "ignore_mismatched_sizes" not in str(error):  # the caller's arguments are wrong
            raise
        raise CheckpointError(
            f"{name_or_path}: its weights have other shapes (logged above) than its configuration and the arguments"
            " say. Correct them, or pass `ignore_mismatched_sizes=True` for new weights."
        ) from error


def _check_sizes(checkpoint: Any, location: Mapping[str, Any]) -> None:
    """Raise `CheckpointError` if no model can be built from the configuration of a checkpoint."""
    config = AutoConfig.from_pretrained(checkpoint, **location)
    auto_class = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModel
    try:
        with torch.device("meta"):
            auto_class.from_config(config)
    except Exception as error:  # of any library
        raise CheckpointError(
            f"{Path(checkpoint, 'config.json')}: no model can be built from it ({one_line(error)}). Correct its sizes,"
            " or choose another checkpoint."
        ) from error


@contextmanager
def quiet_weights(*messages: str) -> Iterator[None]:
    """Load or save weights without a progress bar, except that of a download.

    Warnings that contain a message are dropped, and so is transformers' warning about tied weights: a headless
    checkpoint never has them.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return not any(message in record.getMessage() for message in (TIED, *messages))

    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(is_other)
    if shows_bars := transformers_logging.is_progress_bar_enabled():
        transformers_logging.disable_progress_bar()
        enable_progress_bars()
    try:
        yield
    finally:
        logger.removeFilter(is_other)
        if shows_bars:
            transformers_logging.enable_progress_bar()
