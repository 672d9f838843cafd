"""Parsing of JSON, YAML and `name=value` words into plain values, and CSV. Each error names the place."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml


def read_utf8(path: str | Path) -> str:
    """Read a UTF-8 text file without its byte-order mark. Line ends stay as they are.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not UTF-8. The message names the file and the byte.
    """
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; check the path.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start}); re-save it.") from None


def parse_json(text: str, name: str, first_line: int = 1) -> Any:
    """Parse a JSON text.

    Args:
        text: JSON text with one value.
        name: Name of the file, for error messages.
        first_line (*optional*, defaults to 1): Line of the file in which the text begins.

    Raises:
        ValueError: The text is not valid JSON, or an object has a key twice. The message names the file and the line.
    """
    try:
        value = _DECODER.decode(text)
        if re.search(r"\\u[dD]", text):  # half of a character cannot be encoded
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ValueError(
            f"{name}, line {line}, column {error.colno}: invalid JSON: {error.msg}; correct it."
        ) from error
    except (ValueError, RecursionError) as error:  # half of a character, a number of thousands of digits, nesting
        raise ValueError(f"{name}, line {first_line}: invalid JSON: {error}; correct it.") from None
    return value


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise `ValueError` if it has a key twice, of which json would keep the last."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {repeated!r} twice")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object_of)  # `json.loads` would make one for each text


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file with one JSON object.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a JSON object.
    """
    content = parse_json(read_utf8(path), str(path))
    if not isinstance(content, dict):
        raise ValueError(f"{path} is a {type(content).__name__}; it must be an object of names and values.")
    return content


class _Loader(yaml.SafeLoader):
    """Loader that refuses a mapping with a key twice, of which yaml would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise ValueError(f"line {node.start_mark.line + 1}: the key {repeated[0]!r} is there twice; remove one")
        return super().construct_mapping(node, deep=deep)


def parse_yaml(text: str, where: str) -> Any:
    """Parse a YAML text with one document.

    Raises:
        ValueError: The text is not valid YAML. The message begins with `where`.
    """
    try:
        value = yaml.load(text, Loader=_Loader)
        json.dumps(value, default=str)  # refuses a list that contains itself, by an alias
    except Exception as error:  # invalid tags raise errors of any type: `!!bool x` raises KeyError
        raise ValueError(f"{where}: cannot be read: {' '.join(str(error).split())}; correct it.") from None
    return value


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


def format_json(value: Any, **options: Any) -> str:
    """Return a value as JSON. NaN and infinities become null, because JSON does not have them.

    Args:
        value: The value. What JSON cannot write is written as text.
        **options: Arguments of `json.dumps`.
    """
    finite = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
    return json.dumps(finite, **options)


def format_assignments(values: Mapping[str, Any]) -> list[str]:
    """Return named values as `name=value` strings."""
    return [f"{name}={format_value(value)}" for name, value in values.items()]


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` strings into values by name.

    Raises:
        ValueError: A string has no "=", or the value is not YAML.
    """
    fields = {}
    for assignment in assignments:
        name, _, value = map(str.strip, assignment.partition("="))
        if not name or not value:
            raise ValueError(f"{assignment!r} is not of the form field=value, such as num_local_layers=2.")
        fields[name] = read_value(value, assignment)
    return fields


def format_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV, in which each cell with a line feed or a carriage return is quoted."""
    lines: list[str] = []
    # csv quotes the characters of its line end alone
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerows(rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)
