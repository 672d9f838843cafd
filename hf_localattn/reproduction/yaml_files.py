"""From YAML files to dataclasses, with errors that say where and what is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from hf_localattn.parsing import parse_yaml, read_utf8

T = TypeVar("T")

KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "dict": (dict,),
    "tuple": (tuple,),
    "None": (type(None),),
    "Any": (str, int, float, bool, list, dict, type(None)),
}
"""The types of fields, as they are annotated, and what values of theirs are."""

NUMBER_AS_TEXT = re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+")
"""What YAML 1.1 takes for text: 2e-5 has to be written 2.0e-5."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file of names with values.

    Raises:
        ValueError: it is none; names the file and the place.
    """
    content = parse_yaml(read_utf8(path), path.name)
    check_names(content, path.name)
    return content


def make(cls: type[T], content: Any, where: str, **own: Any) -> T:
    """Return a dataclass of what a file says; lists stand for tuples.

    Args:
        cls: its fields have one of the types of `KINDS`, or several with `|` between.
        content: the values by name.
        where: the place in the file, for errors.
        **own: values that are not in the file.

    Raises:
        ValueError: a value is missing, of another type, or of a name that the class does not have.
    """
    check_names(content, where)
    # There is no public type for "a dataclass".
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    check_known(content, [name for name in fields if name not in own], where)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()} | own
    for name, field in fields.items():
        absent = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if name not in values and absent:
            raise ValueError(f"{where}: {name} is missing.")
        if name in content and name not in own and not _is_a(values[name], str(field.type)):
            raise ValueError(f"{where}: {name} must be {field.type}; found {values[name]!r}.")
    return cls(**values)


def check_names(content: Any, where: str) -> None:
    """Raise `ValueError` for anything but names with values."""
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{where}: expected names with values; found {content!r}.")


def names_of(content: Any, where: str) -> list[str]:
    """Return a list of names, or raise `ValueError` for anything else."""
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{where}: expected a list of names; found {content!r}.")
    return content


def check_known(content: Mapping[str, Any], known: Any, where: str) -> None:
    """Raise `ValueError` for the first name that is not among those known; the nearest is named."""
    for name in content:
        if not isinstance(name, str) or name not in known:
            nearest = difflib.get_close_matches(str(name), list(known), n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else f" There can be {', '.join(known)}."
            raise ValueError(f"{where}: there is no {name!r}.{hint}")


def check_numbers(content: Any, where: str) -> None:
    """Raise `ValueError` for a number that YAML has read as text."""
    values = content.values() if isinstance(content, Mapping) else content if isinstance(content, list | tuple) else ()
    for value in values:
        check_numbers(value, where)
    if isinstance(content, str) and NUMBER_AS_TEXT.fullmatch(content):
        raise ValueError(f"{where}: YAML takes {content} for text: write it with a point, such as 2.0e-5.")


def _is_a(value: Any, annotation: str) -> bool:
    for part in annotation.split(" | "):
        kind, _, inner = part.removesuffix("]").partition("[")
        if type(value) not in KINDS[kind]:  # not `isinstance`: true is no whole number
            continue
        if kind == "dict":
            inner = inner.partition(", ")[2]
            if not all(isinstance(name, str) for name in value):
                continue
        values = value.values() if kind == "dict" else value if kind == "tuple" else ()
        if not inner or all(_is_a(one, inner.removesuffix(", ...")) for one in values):
            return True
    return False
