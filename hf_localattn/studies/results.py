"""Result files of studies: the settings by which a command is known again, and the scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_localattn.data.readers.tables import shorten
from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json
from hf_localattn.training.output_folder import check_unused


def read_results(path: Path, settings: Mapping[str, Any], what: str) -> dict[str, Any] | None:
    """Return what the same command has written; None if it has not been there, and neither has anything else.

    Args:
        path: the file of results in the output folder. It has an entry "settings".
        settings: those of this command.
        what: says in an error what the folder holds.

    Raises:
        ValueError: the folder holds the results of another command, or something else.
    """
    if not path.is_file():
        check_unused(path.parent, f"{path.name} to go on from")
        return None
    known = read_json(path)
    check_same_settings(path, entry(known, "settings", dict, path), settings, f"{what} of another command")
    return known


def check_same_settings(path: Path, known: Mapping[str, Any], settings: Mapping[str, Any], what: str) -> None:
    """Raise `ValueError` if a file of results is of other settings; another version may have other options."""
    for name, value in known.items():
        if name in settings and settings[name] != value:
            raise ValueError(
                f"--output_dir {path.parent} holds the {what}: its {name} is {value!r}, this one's is"
                f" {settings[name]!r}. Give the command it was made with, or another --output_dir."
            )


def entry(found: Mapping[str, Any], name: str, kind: type, path: Path) -> Any:
    """Return an entry of a file that was written here.

    Raises:
        ValueError: it is missing, or of another type.
    """
    value = found.get(name)
    if not isinstance(value, kind):
        raise ValueError(
            f"{path}: its {name!r} must be a {kind.__name__}; found {shorten(value)}. Put the original back, or remove"
            " the file."
        )
    return value


def write_results(path: Path, found: Mapping[str, Any]) -> None:
    """Write what is to be read again; NaN and infinities, for which JSON has no word, are null."""
    atomic_write(path, json.dumps(_without_nan(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def as_written(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what will be read when it has been written."""
    return json.loads(json.dumps(_without_nan(found), default=str))


def _without_nan(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _without_nan(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_without_nan(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
