"""Settings on the command line: `field=value` strings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hf_localattn.parsing import parse_yaml
from hf_localattn.registry import FAMILIES, get_family


def read_value(text: str, assignment: str) -> Any:
    """Return a value of the command line, read as YAML (`2`, `true`, `[3, 4]`, `null`).

    Args:
        text: the value.
        assignment: as it was given, for errors.

    Raises:
        ValueError: it is not YAML.
    """
    value = parse_yaml(text, f"Cannot read the value of {assignment!r}, to be written as YAML, such as 2 or [3, 4]")
    try:  # what YAML 1.1 takes for text: 1e-1
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def format_value(value: Any) -> str:
    """Return a value as it is given in a file or on the command line, for `read_value` to read."""
    return value if isinstance(value, str) else json.dumps(value)


def parse_config_fields(family: str, assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `field=value` strings into what a user sets; values are read as YAML (`2`, `true`, `[3, 4]`, `null`).

    Raises:
        ValueError: a string without "=", or a field the family does not have (the nearest is named).
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
    """Turn `setting=value` strings into settings for the tokenizer of a checkpoint, whose fields are what they are.

    Raises:
        ValueError: a string is of another form, or names no setting of a tokenizer of this model type.
    """
    if not assignments:
        return {}
    family = FAMILIES.get(model_type)
    if family is None or family.tokenizer is None:
        raise ValueError(
            f"{assignments[0]!r} sets nothing: the tokenizer of a {model_type!r} checkpoint has no settings."
        )
    fields, settings = family.split_fields(parse_config_fields(model_type, assignments))
    if fields:
        raise ValueError(
            f"`{next(iter(fields))}` is a field of the model, which a checkpoint has settled. The settings of its"
            f" tokenizer are {', '.join(family.tokenizer_settings)}."
        )
    return settings
