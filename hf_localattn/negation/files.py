"""Texts of files for the command `negation`: rows of .jsonl and .csv files, lines, whole files, standard input."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from hf_localattn.errors import join_names, shorten
from hf_localattn.parsing import parse_json

ROWS = (".jsonl", ".csv", ".tsv")
"""Endings of files with a text a row."""

_MARKS = ",;\t|"
"""Characters that can separate cells."""

_MARK = re.compile(f"[{_MARKS}]")
_NAME = rf'(?:[^\W\d]\w*|"[^"{_MARKS}\n\r]+")'
_HEADER = re.compile(rf"{_NAME}(?P<mark>[,;]){_NAME}(?:(?P=mark){_NAME})*")
_QUOTED = r'"(?:[^"\\]|\\.)*"\s*'
_JSON = re.compile(rf"\s*(?:\[\s*)*(?:\{{\s*{_QUOTED}:|\[\s*{_QUOTED}[,\]])")


@dataclass(frozen=True)
class Source:
    """A text, where it is from, and what is kept of its row."""

    text: str
    name: str
    row: dict[str, Any]  # columns, the text among them
    column: str | None = None  # that of the text, if the file has columns


def read_rows(path: Path, column: str) -> Iterator[Source]:
    """Yield the rows of a .jsonl, .csv or .tsv file, with all their columns.

    Raises:
        ValueError: The file is not of its kind, a row has no text in the column, or has other columns than the header.
    """
    content = decode(path.read_bytes(), str(path))
    read = _json_lines if path.suffix.lower() == ".jsonl" else _table
    has_rows = False
    for line, row in read(path, content):
        has_rows = True
        where = f"{path}, line {line}"
        if column not in row:
            raise ValueError(f"{where}: has no column {column!r}, but {join_names(list(row))}: set --text_column.")
        if not isinstance(row[column], str):
            raise ValueError(f"{where}: {column!r} is {shorten(row[column])}; give a text.")
        yield Source(row[column], where, row, column)
    if not has_rows:
        raise ValueError(f"{path}: has no rows: give at least a text.")


def _json_lines(path: Path, content: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if content.lstrip().startswith("[") or content.split("\n", 1)[0].strip() == "{":
        raise ValueError(f"{path}, line 1: is JSON over several lines or a list: write an object a line.")
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            row = parse_json(line, str(path), number)
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: is {shorten(row)}; write an object a line.")
            yield number, row


def _table(path: Path, content: str) -> Iterator[tuple[int, dict[str, Any]]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if len(header) == 1 and (mark := _MARK.search(header[0])):
            raise ValueError(f"{path}, line 1: has cells between {mark[0]!r}: save it as .csv with commas.")
        if len(set(header)) < len(header):
            raise ValueError(f"{path}: has two columns of one name in {shorten(header)}: name them apart.")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise ValueError(
                    f"{path}, line {reader.line_num}: has {len(cells)} cells, the header {len(header)}: quote texts."
                )
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: is no CSV ({error}): quote texts, or save it as .jsonl."
        ) from None


def read_text(content: str, name: str, column: str, *, lines: bool) -> Iterator[Source]:
    """Yield a text, or its lines that are not empty.

    Raises:
        ValueError: The text is empty, is JSON, or is CSV, perhaps with the column of the texts.
    """
    if not content.strip():
        raise ValueError(f"{name}: is empty: give at least a word.")
    if is_json(content):
        raise ValueError(f"{name}: is JSON and no text: give a .jsonl file with an object a line, and --text_column.")
    if is_csv(content, column):
        raise ValueError(f"{name}: is CSV and no text: give a .csv file with commas, or .tsv, and --text_column.")
    if not lines:
        yield Source(content, name, {"text": content})
        return
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            yield Source(line, f"{name}, line {number}", {"line": number, "text": line})


def is_json(content: str) -> bool:
    """Return True for a text that begins like a JSON object or a list of texts, whole or not."""
    return bool(_JSON.match(content))


def is_csv(content: str, column: str) -> bool:
    """Return True for rows below a header: one of its names is the column, or all are words and the rows fit them.

    Cells between tabs or bars may as well be a table of a note, and so may findings with their answers.
    """
    content = content.lstrip("\r\n")
    first, *others = content.splitlines()
    if not others:
        return False
    if any(column in [name.strip(' "') for name in names] for names in map(first.split, _MARKS) if len(names) > 1):
        return True
    header = _HEADER.fullmatch(first)
    if not header:
        return False
    from hf_localattn.models.negation_answers import read_answers  # would slow down `--help`

    if read_answers(first, (0, len(first)), [], signed=False)[0]:
        return False
    with suppress(csv.Error):  # a cell over the limit
        rows = csv.reader(StringIO(content, newline=""), delimiter=header["mark"])
        count = len(next(rows))
        return all(_fits(row, count) for row in rows if row)
    return True


def _fits(row: list[str], count: int) -> bool:
    """Return True for a row of so many cells, or more behind a number, unless a blank behind a comma shows prose."""
    is_row = len(row) == count or (len(row) > count and row[0].strip().isdecimal())
    return is_row and not row[1][:1].isspace()


def decode(content: bytes, name: str) -> str:
    """Return the UTF-8 text of a file; `ValueError` for other content."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: is no UTF-8 text ({error.reason} at byte {error.start}); convert it.") from None
    if "\0" in text:
        raise ValueError(f"{name}: is no text (a zero at character {text.index(chr(0))}); convert it.")
    return text


def standard_input() -> str:
    """Return the text of standard input."""
    return decode(sys.stdin.buffer.read(), "standard input")
