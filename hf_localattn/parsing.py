"""Parsing of JSON and YAML from untrusted sources into plain values. Each error names the place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

MOST_LEVELS = 100
"""Maximum nesting of lists and mappings, because parsers recurse at each level."""

MOST_VALUES = 1_000_000
"""Maximum number of values of a YAML text. Each use of an alias counts."""

# An escaped single surrogate of UTF-16. Text with a single surrogate cannot be encoded.
_HALF = re.compile(r"\\[uU]0*[dD][89a-fA-F][0-9a-fA-F]{2}")
_PLAIN = (str, int, float, list, dict, type(None))


class _Loader(yaml.SafeLoader):
    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MOST_LEVELS:  # the scanner visits all levels for each token
            raise RecursionError
        super().fetch_flow_collection_start(token)

    def flatten_mapping(self, node: Any) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_VALUES:  # nested merge keys grow exponentially
            raise yaml.YAMLError(f"more than {MOST_VALUES:,} values by merge keys")


def read_utf8(path: str | Path) -> str:
    """Read a UTF-8 text file without its byte-order mark.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not UTF-8. The message names the file and the byte.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start}); re-save it.") from None


def parse_json(text: str, name: str, first_line: int = 1) -> Any:
    """Parse a JSON text.

    Args:
        text: JSON text with one value.
        name: name of the file, for error messages.
        first_line: line of the file in which the text begins.

    Raises:
        ValueError: the text is not valid JSON, is nested too deeply or has invalid values. The message names the file
            and the line.
    """
    where = f"{name}, line {first_line}"
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ValueError(f"{name}, line {line}, column {error.colno}: invalid JSON: {error.msg}.") from error
    except RecursionError:
        raise ValueError(_too_deep(where)) from None
    except ValueError as error:  # a number with thousands of digits
        raise ValueError(f"{where}: a number is too long ({error}).") from None
    _check_values(value, where)
    _check_halves(text, value, where)
    return value


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file with one JSON object.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not a JSON object.
    """
    content = parse_json(read_utf8(path), str(path))
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object of names and values; found {type(content).__name__}.")
    return content


def parse_yaml(text: str, where: str, *others: type) -> Any:
    """Parse a YAML text of strings, numbers, booleans, null, lists and mappings.

    Args:
        text: YAML text with one document.
        where: beginning of error messages.
        *others: further types that values may have.

    Raises:
        ValueError: the text is not valid YAML, is nested too deeply or has other values.
    """
    try:
        value = yaml.load(text, _Loader)
    except RecursionError:
        raise ValueError(_too_deep(where)) from None
    except Exception as error:  # invalid tags raise errors of any type: `!!bool x` raises KeyError
        raise ValueError(f"{where}: cannot be read: {' '.join(str(error).split())}.") from None
    _check_values(value, where, MOST_VALUES, others)
    _check_halves(text, value, where)
    return value


def _check_values(value: Any, where: str, most: int | None = None, others: tuple[type, ...] = ()) -> None:
    level, count = [value], 1
    plain: tuple[type, ...] = (*_PLAIN, *others)
    for _ in range(MOST_LEVELS):
        below: list[Any] = []
        for one in level:
            if most is not None and count + len(below) > most:
                raise ValueError(f"{where}: has more than {most:,} values, counting each use of an alias: shorten it.")
            if isinstance(one, dict):
                below += one
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif not isinstance(one, plain):
                raise ValueError(f"{where}: {one!r} is a {type(one).__name__}: write it as a text, in quotes.")
        if not (level := below):
            return
        count += len(level)
    raise ValueError(_too_deep(where))


def _check_halves(text: str, value: Any, where: str) -> None:
    if not _HALF.search(text):
        return
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"{where}: {half!r} is half of a character: write the character itself.") from None


def _too_deep(where: str) -> str:
    return f"{where}: lists or mappings are nested more than {MOST_LEVELS} deep."
