"""Entries of YAML files as pydantic models."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from hf_localattn.parsing import parse_yaml, read_utf8

T = TypeVar("T")

NUMBER_AS_TEXT = re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+")
"""Numbers that YAML 1.1 reads as text: 2e-5 must be written as 2.0e-5."""


class Entry(BaseModel):
    """An entry of a file: a mapping whose values have exactly the annotated types.

    The field `name` is not read from the entry. `name_entries` sets it to the key of the entry.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


def name_entries(entries: Mapping[str, Any]) -> None:
    """Set the name of each entry to its key."""
    for name, entry in entries.items():
        entry.name = name


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file with a mapping.

    Raises:
        ValueError: the file is not valid YAML or not a mapping. The message names the file and the place.
    """
    return validate(dict[str, Any], parse_yaml(read_utf8(path), path.name), path.name)


def validate(kind: type[T], content: Any, where: str) -> T:
    """Convert the content of a file to an entry or another type.

    Args:
        kind: class of the entry.
        content: content of the file.
        where: place in the file, for error messages.

    Raises:
        ValueError: a value is missing, has another type, or has an unknown name.
    """
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise ValueError(f"{where}: {error}") from None


def check_known(names: Iterable[Any], known: Collection[str], where: str) -> None:
    """Raise `ValueError` for the first name that is not in `known`."""
    for name in names:
        if name not in known:
            raise ValueError(f"{where}: there is no {name!r}. There can be {', '.join(known)}.")


def _check_numbers(content: Any) -> Any:
    values = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    for value in values:
        _check_numbers(value)
    if isinstance(content, str) and NUMBER_AS_TEXT.fullmatch(content):
        raise ValueError(f"YAML takes {content} for text: write it with a point, such as 2.0e-5.")
    return content


Settings = Annotated[dict[str, Any], AfterValidator(_check_numbers)]
"""Arguments of a script or fields of a configuration. Numbers that YAML has read as text raise an error."""
