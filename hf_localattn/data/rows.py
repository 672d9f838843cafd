"""Rows of every task: reading them from a file, a data set or a part of a stream, and checking each of them once."""

# csv and json are read here and in tables.py: `datasets` turns a label 1 into 1.0 if another one is 2.0, treats a
# missing field like null, fills up rows of a table that are too short, and knows no line numbers.

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from datasets import Dataset, Features, Value
from datasets.fingerprint import generate_random_fingerprint
from datasets.table import InMemoryTable

from hf_localattn.data.tables import read_table
from hf_localattn.errors import shorten
from hf_localattn.parsing import parse_json, read_utf8

logger = logging.getLogger(__name__)

Record = dict[str, Any]
PathLike = str | os.PathLike[str]

JSON_SUFFIXES = (".json", ".jsonl")
TABLE_SUFFIXES = (".csv", ".tsv")
SUFFIXES = (*TABLE_SUFFIXES, *JSON_SUFFIXES)

INDEX = "index"
"""Column with the index of each row in its file or data set.

It exists only if rows have been left out, if the rows are a part of a stream, or with `INPUT`.
"""

INPUT = "input"
"""Column with each row as it was read, as JSON. It exists if `Source.keeps_input`."""

PLACE = "place"
"""Column with the place of each row, for error messages. It exists if a task asks for it."""

KNOWN_LABEL = "known_label"
"""Column of labels if some are missing (None). Scores need the others; a model would need all."""

LABELED = "labeled_samples"
"""Metric with the number of scored rows, if other rows have no label."""

SKIP = "correct the row, or leave out such rows with skip_empty=True (scripts: --skip_empty)."


class EmptyText(ValueError):
    """An input text is empty."""


class MissingColumn(ValueError):
    """A row lacks a required column."""


@dataclass(frozen=True)
class Source:
    """Rows to load, with their places.

    Args:
        name: Path of the file, or name of the data set.
        rows: Pairs of a place ("line 3") and a record, or a data set.
        first: Index of the first row, if the rows are a part of a stream; None for all rows.
        keeps_input: Loaders add the columns `INDEX` and `INPUT`.
    """

    name: str
    rows: Sequence[tuple[str, Any]] | Dataset
    first: int | None = None
    keeps_input: bool = False

    def where(self, index: int) -> str:
        """Return the name of the source and the place of a row, given its index in the file or data set."""
        if isinstance(self.rows, Dataset):
            return _row_of(self.name, index)
        place, _ = self.rows[index - (self.first or 0)]
        return f"{self.name}, {place}"


Data: TypeAlias = PathLike | Dataset | Source
"""Rows that a loader takes: a file, a data set, or a data set or a part of a stream with its name."""


@dataclass(frozen=True)
class Column:
    """A column of the data. If several names are given, a row's first matching one is read.

    Args:
        names: Name or names.
        kind: `str`, `list` (of texts), or None (anything).
        required: A missing value is an error.
        may_be_empty: Accept blank texts and empty lists.
        remedy: Advice if the column is missing.
    """

    names: str | tuple[str, ...]
    kind: type | None = str
    required: bool = True
    may_be_empty: bool = False
    remedy: str = ""

    def __str__(self) -> str:
        return self.names if isinstance(self.names, str) else " or ".join(self.names)

    def find(self, present: Iterable[str]) -> str | None:
        """Return the first of the names that is in `present`; None if the column is missing."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        return next((name for name in names if name in present), None)

    def read(self, record: Record) -> Any:
        """Return the value of a row; None if an optional value is missing. A blank text is an `EmptyText`."""
        name = self.find(record)
        value = None if name is None else record[name]
        if value is None and not self.required:
            return None
        if name is None:
            raise MissingColumn(describe_missing([self], record))
        if value is None:
            advice = self.remedy and f"; {self.remedy}"
            problem = f"the field {name!r} is missing: its value is None{advice}"
            if self.kind is None:
                raise ValueError(f"{problem}.")
            raise EmptyText(f"{problem}; {SKIP}")
        if self.kind is None:
            return value
        if self.kind is str and not isinstance(value, str):
            raise ValueError(f"the field {name!r} must be a text; found {describe_value(value)}.")
        if self.kind is list and not _is_list_of_texts(value):
            raise ValueError(f"the field {name!r} must be a list of texts; found {describe_value(value)}.")
        if not self.may_be_empty and not "".join(value).strip():
            raise EmptyText(f"the field {name!r} is empty; {SKIP}")
        return value


def open_source(data: Data, holds: str, suffixes: Sequence[str] = SUFFIXES) -> Source:
    """Return the rows of a file or data set; `holds` is a noun for them in error messages, such as "questions"."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        source = Source(str(path), _read_rows(path, suffixes, holds))
    else:
        source = Source("data set", data) if isinstance(data, Dataset) else data
        if not isinstance(source, Source):
            raise TypeError(f"{holds} are read from a file, a Dataset or a Source, not from a {type(data).__name__}.")
        if isinstance(source.rows, Dataset):
            source = replace(source, rows=_unformatted(source.rows, source.name))
    if not len(source.rows):
        raise ValueError(f"{source.name}: holds no {holds}.")
    return source


def _unformatted(rows: Dataset, name: str) -> Dataset:
    """Return a data set with Python's values in place of arrays or tensors."""
    if rows.format["type"] == "custom":
        raise ValueError(f"{name}: has a transform (with_transform), which is not read; apply it with `map`.")
    return rows.with_format(None) if rows.format["type"] else rows


def convert_rows(
    source: Source,
    columns: Sequence[Column],
    features: Features,
    convert: Callable[[Record], Record],
    *,
    skip_empty: bool = False,
) -> Dataset:
    """Convert and check the rows of a source by `convert`, one by one; errors name the place of a row.

    A data set must have the required `columns`. `features` are those of the result; `PLACE` is filled in. `skip_empty`
    leaves out rows with an `EmptyText`.
    """
    first = source.first or 0
    # A cached result is named after what `convert_batch` refers to: the name of a data set, not the data set.
    where = partial(_row_of, source.name) if isinstance(source.rows, Dataset) else source.where
    all_features = Features({**features, INDEX: Value("int64")})
    if source.keeps_input:
        all_features[INPUT] = Value("string")

    def convert_records(records: Iterable[tuple[int, Any]]) -> list[Record]:
        rows = []
        for index, record in records:
            try:
                if not isinstance(record, dict):
                    names = ", ".join(map(str, columns))
                    raise ValueError(f"expected an object with {names}; found {describe_value(record)}.")
                row = convert(record)
            except ValueError as error:
                if skip_empty and isinstance(error, EmptyText):
                    continue
                problem = str(error)
                if isinstance(error, MissingColumn):
                    problem = describe_missing(find_missing(columns, record), record)
                raise ValueError(f"{where(index)}{_identifier(record)}: {problem}") from None
            row[INDEX] = index
            if PLACE in features:
                row[PLACE] = where(index)
            if source.keeps_input:
                row[INPUT] = json.dumps(record, ensure_ascii=False, default=str)
            rows.append(row)
        return rows

    def convert_batch(batch: Any, indices: list[int]) -> dict[str, list[Any]]:
        rows = zip(*batch.values(), strict=True)
        records = (dict(zip(batch, row, strict=True)) for row in rows)
        numbered = zip((first + index for index in indices), records, strict=True)
        return _columns_of(convert_records(numbered), all_features)

    if isinstance(source.rows, Dataset):
        names = source.rows.column_names
        if missing := find_missing(columns, names):
            raise ValueError(f"{source.name}: {describe_missing(missing, names)}")
        converted = source.rows.map(
            convert_batch,
            batched=True,
            with_indices=True,
            remove_columns=names,
            features=all_features,
            new_fingerprint=name_of_result(source.rows),
            desc=f"Checking {source.name}",
        )
    else:
        records = (record for _, record in source.rows)
        converted = make_dataset(convert_records(enumerate(records, first)), all_features)
    count = len(source.rows)
    if not len(converted) and source.first is None:
        raise ValueError(f"{source.name}: all {count} rows have an empty text, so --skip_empty leaves none.")
    if len(converted) < count:
        left_out = set(range(first, first + count)).difference(converted[INDEX])
        place = where(min(left_out)).removeprefix(f"{source.name}, ")
        message = "%s: leaving out %d of %d rows, which have an empty text, the first one in %s."
        logger.warning(message, source.name, len(left_out), count, place)
    elif source.first is None and not source.keeps_input:
        converted = converted.remove_columns(INDEX)
    return converted


def _identifier(record: Any) -> str:
    """Return the field "id" of a row for an error message, if it has one."""
    identifier = record.get("id") if isinstance(record, dict) else None
    return f" (id {str(identifier)[:60]})" if isinstance(identifier, (str, int)) else ""


def find_missing(columns: Iterable[Column], present: Collection[str]) -> list[Column]:
    """Return the required columns that are missing."""
    return [column for column in columns if column.required and column.find(present) is None]


def describe_missing(missing: Sequence[Column], present: Iterable[str]) -> str:
    """Return the error message for all missing columns, with the remedy of each."""
    names = ", ".join(repr(str(column)) for column in missing)
    subject = f"field {names} is" if len(missing) == 1 else f"fields {names} are"
    present_names = ", ".join(map(str, present)) or "none"
    remedies = dict.fromkeys(column.remedy for column in missing if column.remedy)
    return "; ".join([f"the {subject} missing (found {present_names})", *remedies]) + "."


def name_of_result(rows: Dataset) -> str | None:
    """Return a name for what `map` makes of rows in memory: no file has it, and `map` would take long to find one."""
    return None if rows.cache_files else generate_random_fingerprint()


def make_dataset(rows: Sequence[Record], features: Features) -> Dataset:
    """Return a data set of rows, without the conversion and the hash of each value by `Dataset.from_list`."""
    columns = _columns_of(rows, features)
    table = InMemoryTable.from_pydict(columns, schema=features.arrow_schema)
    return Dataset(table, fingerprint=generate_random_fingerprint())


def row_indices(rows: Dataset) -> Sequence[int]:
    """Return the index of each row in its file or data set."""
    return list(rows[INDEX]) if INDEX in rows.column_names else range(len(rows))


def read_text(path: PathLike) -> str:
    """Return the content of a UTF-8 file; raise `ValueError` if it is empty, a folder, or not UTF-8."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give a file.")
    text = read_utf8(path)
    if not text.strip():
        raise ValueError(f"{path}: is empty.")
    return text


def stream_rows(path: PathLike) -> Iterator[tuple[str, Any]]:
    """Yield the place and the record of each line of a .jsonl file, which is not read whole."""
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: --streaming reads files line by line; save the rows as .jsonl.")
    with path.open(encoding="utf-8-sig", newline="\n") as lines:
        try:
            yield from _json_lines(path, lines)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: is not UTF-8 text ({error.reason}); re-save it.") from None


def label_column(labels: Collection[Any]) -> str | None:
    """Return the name of a column with these labels: `KNOWN_LABEL` if some are None; None if all are."""
    missing = sum(label is None for label in labels)
    if missing == len(labels):
        return None
    return KNOWN_LABEL if missing else "label"


def labeled_rows(rows: Dataset) -> tuple[list[int], list[Any]]:
    """Return the indices of the rows with a label, and these labels. Both are empty without a column `KNOWN_LABEL`."""
    if KNOWN_LABEL not in rows.column_names:
        return [], []
    labels = rows[KNOWN_LABEL][:]
    labeled = [row for row, label in enumerate(labels) if label is not None]
    return labeled, [labels[row] for row in labeled]


def as_list(cell: Any) -> Any:
    """Parse a cell that holds a JSON list, as in .csv files; return any other value unchanged."""
    if isinstance(cell, str) and cell.strip()[:1] == "[":
        with suppress(ValueError):
            return parse_json(cell, "the cell")
    return cell


def check_all_or_none(source: Source, rows: Dataset, column: str) -> None:
    """Raise `ValueError` if a column is empty in some rows with words, but not in all."""
    values = zip(row_indices(rows), rows["tokens"][:], rows[column][:], strict=True)
    has_value = {index: bool(value) for index, words, value in values if words}
    without = [index for index in has_value if not has_value[index]]
    if without and any(has_value.values()):
        where = source.where(without[0])
        raise ValueError(f"{where}: has no {column}, but other rows have; give them for all rows, or for none.")


def describe_value(value: Any) -> str:
    """Describe a wrong value in a few words."""
    if isinstance(value, dict):
        names = ", ".join(map(str, value)) or "no fields"
        return f"an object with {names}"
    return f"a list of {len(value)}" if isinstance(value, list) else shorten(value)


def check_special_tokens(rows: Dataset, inputs: Sequence[str], name: str, tokenizer: Any) -> None:
    """Raise `ValueError` for a text in which a tokenizer finds the end of an input, a separator, a mask and the like.

    The unknown token and tokens that were added for a data set, such as cue markers, may be in its texts.

    Args:
        rows: Rows of any task.
        inputs: Columns of what a model reads. Rows may lack some of them.
        name: Name of their file or split.
        tokenizer: Tokenizer of the model.
    """
    roles = ("bos_token", "eos_token", "sep_token", "cls_token", "pad_token", "mask_token")
    tokens: list[str] = sorted({token for role in roles if (token := getattr(tokenizer, role, None))})
    if not tokens:
        return
    find_token = re.compile("|".join(map(re.escape, tokens))).search
    for column in filter(rows.column_names.__contains__, (*inputs, KNOWN_LABEL)):
        for row, value in enumerate(rows[column][:]):
            text = "\n".join(value) if isinstance(value, list) else value
            if isinstance(text, str) and (token := find_token(text)):
                place = rows[row][PLACE] if PLACE in rows.column_names else _row_of(name, row_indices(rows)[row])
                raise ValueError(
                    f"{place}: a text has {token[0]!r}, which is a special token of the model: remove it, or write it"
                    " in another way."
                )


def check_is_fast(tokenizer: Any, purpose: str) -> None:
    """Raise `ValueError` if a tokenizer is slow, and therefore cannot say where its tokens are."""
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{type(tokenizer).__name__} is not a fast tokenizer, and {purpose}.")


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _columns_of(rows: Sequence[Record], features: Features) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in features}


def _read_rows(path: Path, suffixes: Sequence[str], holds: str) -> list[tuple[str, Any]]:
    """Return the places and records of a file: a table with a header, a list, `{"data": [rows]}` or JSON lines."""
    if path.suffix not in suffixes and path.is_file():  # reading fails for other paths
        raise ValueError(f"{path}: {holds} are read from files that end in {', '.join(suffixes)}.")
    text = read_text(path)
    if path.suffix in TABLE_SUFFIXES:
        return list(read_table(path, text))
    # not `splitlines`: texts may contain U+2028 and other line separators unescaped
    lines = text.split("\n")
    if path.suffix == ".jsonl":
        return list(_json_lines(path, lines))
    try:
        content = parse_json(text, str(path))
    except ValueError as error:
        if getattr(error.__cause__, "msg", "") != "Extra data":
            raise
        return list(_json_lines(path, lines))  # JSON lines in a file named .json
    rows = content.get("data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise ValueError(f'{path}: expected a list of rows, or {{"data": [...]}}; found {describe_value(content)}.')
    return [(f"record {count}", row) for count, row in enumerate(rows, start=1)]


def _json_lines(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for line_number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"line {line_number}", parse_json(line, str(path), line_number)


def _row_of(name: str, index: int) -> str:
    return f"{name}, row {index + 1}"
