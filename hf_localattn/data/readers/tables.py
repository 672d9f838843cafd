"""Reader for .csv, .tsv, .json and .jsonl files that keeps the place of each row for error messages."""

# The loaders of `datasets` are too lenient. "json" turns a label 1 into 1.0 if another label is 2.0, treats a missing
# field like null, and reports the row within a block instead of the line. "csv" uses pandas; pandas fills up rows that
# are too short, and counts rows instead of lines.

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_localattn.parsing import parse_json, read_utf8

Record = dict[str, Any]
PathLike = str | os.PathLike[str]

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl")


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a stream.

    Args:
        first: number of the first row, from 0.
        rows: rows with their places, as `read_rows` returns them.
    """

    first: int
    rows: list[tuple[str, Any]]


_part: ContextVar[Part | None] = ContextVar("part", default=None)


@contextmanager
def reading(part: Part) -> Iterator[None]:
    """Let `read_rows` return a part of a stream instead of a whole file, and count rows from its first one."""
    token = _part.set(part)
    try:
        yield
    finally:
        _part.reset(token)


def first_row() -> int:
    """Return the number of the first row that is being read, from 0."""
    part = _part.get()
    return 0 if part is None else part.first


def is_part() -> bool:
    """Return True if the rows that are being read are a part of a stream."""
    return _part.get() is not None


def read_text(path: PathLike) -> str:
    """Return the content of a UTF-8 file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is empty or not UTF-8, or the path is a folder.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the path (it is relative to {Path.cwd()}).")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give a file.")
    text = read_utf8(path)
    if not text.strip():
        raise ValueError(f"{path}: is empty.")
    return text


def read_rows(path: PathLike, *, suffixes: Sequence[str] = SUFFIXES, what: str = "rows") -> list[tuple[str, Any]]:
    """Read a file of rows: .csv or .tsv with a header, .json (a list of rows, or `{"data": [rows]}`) or .jsonl.

    Args:
        path: a file with one of `suffixes`.
        suffixes: allowed extensions, *optional*, defaults to all four.
        what: noun for the rows in error messages.

    Returns:
        Pairs of a place in the file ("line 3", "record 2") and a row. The caller has to validate the row.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the extension is not allowed, or the content does not match it.
    """
    if (part := _part.get()) is not None:
        return part.rows
    path = Path(path)
    text = read_text(path)
    if path.suffix not in suffixes:
        raise ValueError(
            f"{path}: cannot read {path.suffix or 'a file without an extension'}; {what} are read from"
            f" {', '.join(suffixes[:-1])} or {suffixes[-1]}."
        )
    if path.suffix in (".csv", ".tsv"):
        return list(_separated(path, text))
    if path.suffix == ".jsonl":
        return list(_json_lines(path, text.split("\n")))
    return list(_json(path, text))


def stream_rows(path: PathLike) -> Iterator[tuple[str, Any]]:
    """Read a .jsonl file line by line.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file has another extension, or a line is not UTF-8 or not JSON.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: --streaming reads files line by line; save the rows as .jsonl.")
    if not path.is_file():
        read_text(path)  # raises the error
    with path.open(encoding="utf-8-sig", newline="\n") as lines:
        try:
            yield from _json_lines(path, lines)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: is not UTF-8 text ({error.reason}); re-save it.") from None


def as_list(cell: Any) -> Any:
    """Parse a cell that holds a JSON list, as in .csv files; return any other value unchanged."""
    if isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]"):
        try:
            return parse_json(cell, "the cell")
        except ValueError:
            return cell
    return cell


def describe_value(value: Any) -> str:
    """Describe a wrong value in a few words."""
    if isinstance(value, dict):
        return f"an object with {', '.join(map(str, value)) or 'no fields'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return shorten(value)


def shorten(value: Any) -> str:
    """Return the `repr` of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _json(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        content = parse_json(text, str(path))
    except ValueError as error:
        if getattr(error.__cause__, "msg", "") != "Extra data":
            raise
        yield from _json_lines(path, text.split("\n"))  # JSON lines in a file named .json
        return
    rows = content.get("data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise ValueError(f'{path}: expected a list of rows, or {{"data": [...]}}; found {describe_value(content)}.')
    yield from ((f"record {number}", row) for number, row in enumerate(rows, start=1))


def _json_lines(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    # not from `splitlines`: texts may contain U+2028 and other line separators unescaped
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"line {number}", parse_json(line, str(path), number)


def _separated(path: Path, text: str) -> Iterator[tuple[str, Record]]:
    # GLUE's tab-separated files have no quoting: quotation marks are ordinary characters there.
    tabs = path.suffix == ".tsv"
    # no universal newlines: a quoted field may contain line breaks
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, **({"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}))
    try:
        header = next(reader)
        if repeated := sorted(name for name, number in Counter(header).items() if number > 1):
            raise ValueError(f"{path}, line 1: the column {repeated[0]!r} is there twice; rename one.")
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                raise ValueError(
                    f"{path}, line {reader.line_num}: {len(values)} fields, but the header has {len(header)}"
                    f" ({', '.join(header)}); quote fields that hold the separator, or save as .jsonl."
                )
            yield f"line {reader.line_num}", dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None
