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


def parse_config_fields(family: str, assignments: Iterable[str]) -> dict[str, Any]:
    """Parse `field=value` strings into fields of a family's configuration and settings of its tokenizer.

    Args:
        family: name of the family.
        assignments: strings whose values are YAML (`2`, `true`, `[3, 4]`, `null`).

    Raises:
        ValueError: a string has no "=", or the family has no such field. The message names the most similar one.
    """
    config_fields = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"{assignment!r} is not of the form field=value, such as num_local_layers=2.")
        config_fields[name.strip()] = read_value(value, assignment)
    get_family(family).split_fields(config_fields)
    return config_fields


def parse_tokenizer_settings(model_type: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Parse `setting=value` strings into settings for the tokenizer of a checkpoint.

    Args:
        model_type: model type of the checkpoint.
        assignments: strings whose values are YAML.

    Raises:
        ValueError: a string has no "=", or the tokenizer has no such setting.
    """
    if not assignments:
        return {}
    family = FAMILIES.get(model_type)
    if family is None or family.tokenizer is None:
        raise ValueError(
            f"{assignments[0]!r} cannot be set: the tokenizer of a {model_type!r} checkpoint has no settings."
        )
    fields, settings = family.split_fields(parse_config_fields(model_type, assignments))
    if fields:
        raise ValueError(
            f"`{next(iter(fields))}` is a field of the model, which is fixed in a checkpoint. The tokenizer has the"
            f" settings {', '.join(family.tokenizer_settings)}."
        )
    return settings
