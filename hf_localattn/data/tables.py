"""Tables with a header: .csv, and .tsv with and without quotes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hf_localattn.errors import shorten

# a whole field of a tab-separated file in quotes; quotes in it are doubled
_QUOTED_FIELD = re.compile(r'(?<![^\t\n])"((?:[^"]|"")*+)"(?=[\t\n]|\r\n|\Z)')


def read_table(path: Path, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the cells of each row of a table, by the names in its header.

    Raises:
        ValueError: The table is invalid. The message names the line.
    """
    # A quoted field of .csv may contain line breaks.
    quoting: Any = _tab_format(path, text) if path.suffix == ".tsv" else {"strict": True}
    reader = csv.reader(io.StringIO(text, newline="\n"), **quoting)
    first_line = 1  # of a row
    try:
        header = next(reader)
        if repeated := sorted({name for name in header if header.count(name) > 1}):
            raise ValueError(f"{path}, line 1: the column {repeated[0]!r} is there twice; rename one.")
        first_line = reader.line_num + 1
        empty_lines: list[int] = []  # in a table of one column these are rows, except at the end of the file
        for values in reader:
            if not values:
                empty_lines.append(reader.line_num)
                continue
            if len(header) == 1:
                yield from ((f"line {line}", {header[0]: ""}) for line in empty_lines)
            empty_lines.clear()
            if _without_case(values) == _without_case(header):
                raise ValueError(f"{path}, line {reader.line_num}: repeats the header; remove it, or save as .jsonl.")
            if len(values) != len(header):
                raise ValueError(
                    f"{path}, line {reader.line_num}: {len(values)} fields, but the header has {len(header)}; save"
                    " rows whose fields hold the separator as .jsonl."
                )
            yield f"line {reader.line_num}", dict(zip(header, values, strict=True))
            first_line = reader.line_num + 1
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        if first_line < reader.line_num:
            place += f", in the row that begins in line {first_line}"
        problem = str(error)
        if "field limit" in problem:
            problem = (
                f"a cell has more than {csv.field_size_limit():,} characters, perhaps since a quote is not closed"
            )
        elif "new-line character" in problem:
            problem = "a carriage return in a cell without quotes"
        raise ValueError(f"{place}: {problem}; correct it, or save as .jsonl.") from None


def _without_case(cells: list[str]) -> list[str]:
    return [cell.strip().casefold() for cell in cells]


def _tab_format(path: Path, text: str) -> dict[str, Any]:
    """Return the options to read a tab-separated text: with quoting, as pandas writes it, or without, as GLUE has it.

    Fields are quoted if the header is, or if a field is in quotes and has doubled ones inside. It is an error if other
    quotes contradict that, or if a field with a tab or a line break may be quoted or not.
    """
    fields = list(_QUOTED_FIELD.finditer(text)) if '"' in text else []
    signs_of_quoting = [field for field in fields if '""' in field[1] or field.start() == 0]
    if '"' in _QUOTED_FIELD.sub("", text):
        doubtful = [field for field in signs_of_quoting if "\n" not in field[1]]
    elif signs_of_quoting:
        return {"delimiter": "\t", "strict": True}
    else:
        doubtful = [field for field in fields if "\t" in field[1] or "\n" in field[1]]
    if not doubtful:
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    line = text.count("\n", 0, doubtful[0].start()) + 1
    raise ValueError(
        f"{path}, line {line}: the quotes of {shorten(doubtful[0][0])} may belong to the text or around it; save the"
        " rows as .jsonl."
    )
