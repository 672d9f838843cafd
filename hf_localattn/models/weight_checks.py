"""Validation of weight files before a model is built, and a limit on the model's size.

Only headers are read, in plain Python. A header is a JSON object, preceded by its length in 8 bytes. It lists the
dtype, the shape and the offsets of each tensor (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules import module as torch_modules
from transformers.utils import cached_file

CONVERSION = (
    "A .bin file is a pickle, which may run any code when it is read. If you trust it, convert it in its folder: "
    'python -c "import torch; from safetensors.torch import save_file; '
    "weights = torch.load('pytorch_model.bin', weights_only=True); "
    "save_file({name: one.clone() for name, one in weights.items()}, 'model.safetensors', {'format': 'pt'})\""
)
"""Error text for weights that would have to be unpickled."""

LONGEST_HEADER = 100_000_000
"""Largest header in bytes, as in the safetensors library."""

MOST_DIMENSIONS = 64
"""Largest number of dimensions of a tensor, as in torch."""

BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}

NEW_NUMBERS, NEW_PARTS = 2**26, 2000
"""Numbers (256 MB in single precision), and parameters and modules, that may be missing from the weight files."""


@dataclass
class Held:
    """Number of tensors in the weight files, and total number of their elements."""

    tensors: int = 0
    numbers: int = 0


_held: ContextVar[Held | None] = ContextVar("held", default=None)


@contextmanager
def loading_from(name_or_path: str | os.PathLike[str], where: dict[str, Any]) -> Iterator[None]:
    """Check the weight files of a checkpoint, and pass their size to `building` within the block.

    Args:
        name_or_path: A folder, or an id on the Hub, whose files are fetched as in `from_pretrained`.
        where: Keyword arguments of `from_pretrained`.

    Raises:
        ValueError: If a file is not a valid safetensors file, or the index names files outside the folder.
        OSError: If a file cannot be fetched, or would have to be unpickled.
    """
    token = _held.set(_checked(os.fspath(name_or_path), where))
    try:
        yield
    finally:
        _held.reset(token)


@contextmanager
def building() -> Iterator[None]:
    """Limit the size of a model that is built within the block, in proportion to its weight files.

    Without this limit, a configuration of a few bytes could ask for terabytes of memory or for a million layers.

    Raises:
        ValueError: If the model is too large, or cannot be built from its configuration.
    """
    held = _held.get()
    if held is None:
        yield
        return
    most_numbers, most_parts = 4 * held.numbers + NEW_NUMBERS, 10 * held.tensors + NEW_PARTS
    numbers = parts = 0
    thread = threading.get_ident()

    def count(_module: Any, _name: str, part: Any) -> None:
        nonlocal numbers, parts
        if threading.get_ident() != thread or part is None:
            return
        numbers, parts = numbers + (part.numel() if hasattr(part, "numel") else 0), parts + 1
        if numbers > most_numbers or parts > most_parts:
            raise ValueError(
                f"The configuration asks for more than {most_numbers} parameters or {most_parts} modules, and the"
                f" weight files hold {held.numbers} numbers in {held.tensors} tensors. Correct the configuration; to"
                " build new layers of this size, use `from_config`."
            )

    hooks = [
        torch_modules.register_module_parameter_registration_hook(count),
        torch_modules.register_module_buffer_registration_hook(count),
        torch_modules.register_module_module_registration_hook(count),
    ]
    try:
        yield
    except torch.OutOfMemoryError:  # the configuration may be valid
        raise
    except (RuntimeError, ArithmeticError, AssertionError, LookupError) as error:
        raise ValueError(
            f"The model cannot be built from its configuration: {type(error).__name__}: {error}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def without_tie_warning() -> Iterator[None]:
    """Drop transformers' warning that a checkpoint is corrupted if it lacks both of two tied weights.

    A checkpoint without a head lacks the tied weights of the head. The loading report lists them as missing.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return "but both are absent from the checkpoint" not in record.getMessage()

    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def read_header(path: str | os.PathLike[str]) -> dict[str, list[int]]:
    """Return the shapes of the tensors in a safetensors file, by name.

    Raises:
        ValueError: If the file is not a complete safetensors file. The message names the file.
    """
    problem = f"{os.fspath(path)} is not a whole safetensors file: "
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise ValueError(f"{problem}its header should have {length} bytes, and the file has {size}.")
        try:
            header = json.loads(file.read(length).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{problem}its header cannot be read ({error}).") from None
    notes = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise ValueError(f"{problem}its header must be a JSON object of tensors and notes.")
    places = []
    for tensor, entry in header.items():
        try:
            kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            is_possible = all(type(number) is int and 0 <= number < 2**63 for number in (*shape, begin, end))
            is_possible = (
                is_possible and len(shape) <= MOST_DIMENSIONS and 8 * (end - begin) == math.prod(shape) * BITS[kind]
            )
        except (KeyError, TypeError, ValueError):
            is_possible = False
        if not is_possible:
            raise ValueError(f"{problem}the tensor {tensor!r} has the entry {str(entry)[:200]}.")
        places.append((begin, end, tensor))
    position = 0
    for begin, end, tensor in sorted(places):
        if begin != position:
            raise ValueError(f"{problem}the tensor {tensor!r} begins at {begin}, where {position} is expected.")
        position = end
    if position != size - 8 - length:
        raise ValueError(f"{problem}its tensors take {position} bytes, and it has {size - 8 - length} for them.")
    return {tensor: entry["shape"] for tensor, entry in header.items()}


def _checked(source: str, where: dict[str, Any]) -> Held | None:
    """Return the size of the weight files, or None without files; transformers reports that."""
    fetch = _fetcher(source, where)
    variant = f".{where['variant']}" if where.get("variant") else ""
    if os.path.isfile(source):
        paths = [source]
    elif path := fetch(f"model{variant}.safetensors"):
        paths = [path]
    elif path := fetch(f"model.safetensors.index{variant}.json"):
        paths = [_shard(fetch, name) for name in _shards(path)]
    else:
        return None
    held = Held()
    for path in paths:
        for shape in read_header(path).values():
            held.tensors, held.numbers = held.tensors + 1, held.numbers + math.prod(shape)
    return held


def check_neighbors(source: str | os.PathLike[str], where: dict[str, Any]) -> None:
    """Raise `ValueError` for files next to the weights that make transformers load something else, too."""
    source = os.fspath(source)
    folder = os.path.join(source, where.get("subfolder") or "")
    adapter = (where.get("adapter_kwargs") or {}).get("_adapter_model_path")
    if adapter is not None or (not os.path.isfile(source) and _fetcher(source, where)("adapter_config.json")):
        raise ValueError(
            f"{os.fspath(adapter or source)!r} has an adapter_config.json, which can name any other model. Load a "
            "model that you know, and add the adapter: `peft.PeftModel.from_pretrained(model, adapter)`."
        )
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if shards := [name for name in names if name.startswith("shard-") and name.endswith(".safetensors")]:
        raise ValueError(
            f"{source!r} has {shards[0]}, a part of a distributed checkpoint, which cannot be loaded: save the model "
            "with `save_pretrained`."
        )


def _fetcher(source: str, where: dict[str, Any]) -> Callable[[str], str | None]:
    """Return a function that maps the name of a checkpoint's file to its path, or to None if it does not exist."""
    subfolder = where.get("subfolder") or ""
    if os.path.isdir(source):

        def in_folder(name: str) -> str | None:
            path = os.path.join(source, subfolder, name)
            return path if os.path.isfile(path) else None

        return in_folder
    given = {
        name: where[name]
        for name in ("cache_dir", "revision", "token", "local_files_only", "force_download")
        if name in where
    }
    silent = dict.fromkeys(("gated_repo", "missing_entries", "connection_errors"), False)
    quiet = {f"_raise_exceptions_for_{name}": value for name, value in silent.items()}

    def on_the_hub(name: str) -> str | None:
        return cached_file(source, name, subfolder=subfolder, **given, **quiet)

    return on_the_hub


def _shards(path: str) -> list[str]:
    """Return the names of the files in an index."""
    try:
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        places = index["weight_map"]
        names = sorted(set(places.values()))
        is_index = isinstance(index.get("metadata"), dict) and all(isinstance(name, str) for name in names)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{os.path.basename(path)} is not an index of weight files ({error}).") from None
    if not is_index:
        raise ValueError(f"{os.path.basename(path)} is not an index of weight files: it has no `metadata` and names.")
    for name in names:
        if not re.fullmatch(r"[^/\\\0]+\.safetensors", name):
            raise ValueError(
                f"{os.path.basename(path)} names the file {name!r}; it can only name .safetensors files next to it."
            )
    return names


def _shard(fetch: Callable[[str], str | None], name: str) -> str:
    path = fetch(name)
    if path is None:
        raise ValueError(f"The index of the weights names {name!r}, but there is no such file.")
    return path
