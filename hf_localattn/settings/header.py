"""Names of columns in the first line of a file, which show a wrong option before libraries are imported."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

OPTIONS = ("text_column_names", "text_column_name", "label_column_name")
"""Options that name columns which all training rows have."""


def check_columns(file: str, options: Mapping[str, Any], *, tabs: bool) -> None:
    """Raise `ValueError` if an option names a column that a file of training rows lacks.

    Args:
        file: Path of a file. Other files than .csv, .tsv and .jsonl are not read here.
        options: Options by name.
        tabs: A .tsv file is a table with a header.
    """
    present: Iterable[str] | None = None
    with suppress(OSError, ValueError, csv.Error), open(file, encoding="utf-8-sig", newline="") as lines:
        match Path(file).suffix:
            case ".csv":
                present = next(csv.reader(lines), None)
            case ".tsv" if tabs:
                present = next(csv.reader(lines, delimiter="\t"), None)
            case ".jsonl":
                present = json.loads(next(filter(str.strip, lines), "null"))
    if not isinstance(present, list | dict):
        return
    for option in OPTIONS:
        names = options.get(option)
        for name in map(str.strip, names.split(",") if isinstance(names, str) else ()):
            if name not in present:
                raise ValueError(f"--{option}: {file} has no column {name!r}; it has {', '.join(map(str, present))}.")
