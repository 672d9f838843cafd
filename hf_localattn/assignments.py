"""Parsing of `field=value` settings on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hf_localattn.parsing import parse_yaml
from hf_localattn.registry import FAMILIES, get_family


def read_value(text: str, assignment: str) -> Any:
    """Return a value of the command line, read as YAML. `assignment` is the whole string, for error messages."""
    value = parse_yaml(text, f"Cannot read the value of {assignment!r} as YAML, such as 2 or [3, 4]")
    try:  # YAML 1.1 reads 1e-1 as text
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def format_value(value: Any) -> str:
    """Format a value so that `read_value` can parse it."""
    return value if isinstance(value, str) else json.dumps(value)


def format_assignments(values: Mapping[str, Any]) -> list[str]:
    """Return named values as `name=value` strings."""
    return [f"{name}={format_value(value)}" for name, value in values.items()]


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` strings into values by name.

    Raises:
        ValueError: a string has no "=", or the value is not YAML.
    """
    fields = {}
    for assignment in assignments:
        name, _, value = map(str.strip, assignment.partition("="))
        if not name or not value:
            raise ValueError(f"{assignment!r} is not of the form field=value, such as num_local_layers=2.")
        fields[name] = read_value(value, assignment)
    return fields


def parse_config_fields(family: str, assignments: Iterable[str]) -> dict[str, Any]:
    """Parse `field=value` strings into fields of a family's configuration and settings of its tokenizer.

    Raises:
        ValueError: a string has no "=", or the family has no such field. The message lists its fields.
    """
    fields = parse_assignments(assignments)
    get_family(family).split_fields(fields)
    return fields


def parse_tokenizer_settings(model_type: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Parse `setting=value` strings into settings for the tokenizer of a checkpoint of a model type.

    Raises:
        ValueError: a string has no "=", or the tokenizer has no such setting.
    """
    settings = parse_assignments(assignments)
    check_tokenizer_settings(model_type, settings)
    return settings


def check_tokenizer_settings(model_type: str, names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that is no setting of the tokenizer of a checkpoint of a model type."""
    settings = FAMILIES[model_type].tokenizer_settings if model_type in FAMILIES else ()
    for name in names:
        if name not in settings:
            raise ValueError(
                f"{name!r} cannot be set: the fields of a checkpoint are fixed, and the tokenizer of this"
                f" {model_type!r} checkpoint has {', '.join(settings) or 'no'} settings."
            )
