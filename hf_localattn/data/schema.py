"""Row schemas: the columns that the rows of a task need, and the one way in which all rows are checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value

from hf_localattn.data.readers.tables import SUFFIXES, Record, describe_value, read_rows

logger = logging.getLogger(__name__)

INDEX = "index"
"""The column with the number of a row, from 0, in its file or data set; it is there if other rows are left out."""

PLACE = "place"
"""The column with the place of a row, for errors; it is there if the features of a schema name it."""

MOST_PLACES = 10
"""Places of rows that are left out, in the log."""

MOST_OF_ID = 60
"""Characters of a row's id, in errors."""

SKIP = "mend the row, or leave out such rows with skip_empty=True (scripts: --skip_empty)."


class EmptyText(ValueError):
    """A text that a model would read is empty."""


@dataclass(frozen=True)
class Column:
    """A column of the data with the type of its values.

    Args:
        names: its name, or several names, out of which a row's first one is taken.
        kind: `str` for a text, `list` for a list of texts, or None for anything.
        required: True if a row without it, or with None in it, is an error.
        may_be_empty: True if a text may be blank, or a list may hold blank texts alone.
        remedy: advice for errors about a missing column.
    """

    names: str | tuple[str, ...]
    kind: type | None = str
    required: bool = True
    may_be_empty: bool = False
    remedy: str = ""

    def __str__(self) -> str:
        return self.names if isinstance(self.names, str) else " or ".join(self.names)

    def find(self, present: Iterable[str]) -> str | None:
        """Return the name that the column has among those that are there; None if it is not there."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        return next((name for name in names if name in present), None)

    def read(self, record: Record) -> Any:
        """Return the value of a row; None if it has none and needs none.

        Raises:
            EmptyText: it is blank, or None instead of a text.
            ValueError: it is missing or of another kind.
        """
        name = self.find(record)
        value = None if name is None else record[name]
        if value is None:
            if not self.required:
                return None
            raise self.missing(record)
        if self.kind is str and not isinstance(value, str):
            raise ValueError(f"the field {name!r} must be a text; found {describe_value(value)}.")
        if self.kind is list and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
            raise ValueError(f"the field {name!r} must be a list of texts; found {describe_value(value)}.")
        if self.kind is not None and not self.may_be_empty and not "".join(value).strip():
            raise EmptyText(f"the field {name!r} is empty; {SKIP}")
        return value

    def missing(self, record: Record) -> ValueError:
        """Return the error about a row that has no value of the column."""
        name = self.find(record)
        if name is not None:
            absent = f"the field {name!r} is missing, as its value is None{self.advice}"
            return ValueError(f"{absent}.") if self.kind is None else EmptyText(f"{absent}; {SKIP}")
        found = ", ".join(map(str, record)) or "none"
        return ValueError(f"the field {str(self)!r} is missing (found {found}){self.advice}.")

    @property
    def advice(self) -> str:
        """The remedy as the end of a sentence."""
        return f"; {self.remedy}" if self.remedy else ""


@dataclass(frozen=True)
class Schema:
    """The rows of a task.

    Args:
        holds: name of the rows in errors, such as "questions".
        columns: columns that are read. A data set needs those that are required.
        features: the columns of the result.
        convert: turns a record into a row of the result; its errors do not say where the record is.
        suffixes: endings of the files that can be read.
        skip_empty: True to leave out rows with an empty text.
        complete: checks all rows of a file or data set together, given its name, and returns the result.
    """

    holds: str
    columns: Sequence[Column]
    features: Features
    convert: Callable[[Record], Record]
    suffixes: Sequence[str] = SUFFIXES
    skip_empty: bool = False
    complete: Callable[[Dataset, str], Dataset] | None = None

    def load(self, path: Path) -> Dataset:
        """Return the rows of a file.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file or one of its rows cannot be used; names the line and the remedy.
        """
        return self.read(read_rows(path, suffixes=self.suffixes, what=self.holds), str(path))

    def read(self, records: Sequence[tuple[str, Any]], source: str) -> Dataset:
        """Return the rows of a file that has been parsed.

        Args:
            records: each with its place in the file.
            source: the file, for errors.

        Raises:
            ValueError: there are none, or one of them cannot be used; names its place and the remedy.
        """
        check_any(records, self.holds, source)
        rows = [self._row(record, f"{source}, {place}", number) for number, (place, record) in enumerate(records)]
        kept = Dataset.from_dict(self._by_column(rows), features=self._all_features)
        return self._finish(kept, len(records), source, lambda number: records[number][0])

    def normalize(self, dataset: Dataset, name: str) -> Dataset:
        """Return the rows of a data set from elsewhere.

        Raises:
            ValueError: a column is missing, or a row cannot be used; names the row and the remedy.
        """
        check_any(dataset, self.holds, name)
        missing = [column for column in self.columns if column.required and not column.find(dataset.column_names)]
        if missing:
            has = ", ".join(dataset.column_names)
            names = ", ".join(repr(str(column)) for column in missing)
            raise ValueError(f"{name}: has no column {names} (it has {has}){missing[0].advice}.")

        def convert(batch: Any, numbers: list[int]) -> dict[str, list[Any]]:
            records = (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
            rows = [
                self._row(record, f"{name}, row {number + 1}", number)
                for number, record in zip(numbers, records, strict=True)
            ]
            return self._by_column(rows)

        kept = dataset.map(
            convert,
            batched=True,
            with_indices=True,
            remove_columns=dataset.column_names,
            features=self._all_features,
            desc=f"Checking {name}",
        )
        return self._finish(kept, len(dataset), name, lambda number: f"row {number + 1}")

    @property
    def _all_features(self) -> Features:
        return Features({**self.features, INDEX: Value("int64")})

    def _by_column(self, rows: Iterable[Record | None]) -> dict[str, list[Any]]:
        kept = [row for row in rows if row is not None]
        return {column: [row[column] for row in kept] for column in self._all_features}

    def _row(self, record: Any, place: str, number: int) -> Record | None:
        """The row that a record becomes; None if it is left out."""
        try:
            if not isinstance(record, dict):
                names = ", ".join(map(str, self.columns))
                raise ValueError(f"expected an object with {names}; found {describe_value(record)}.")
            row = self.convert(record)
        except ValueError as error:
            if self.skip_empty and isinstance(error, EmptyText):
                return None
            raise ValueError(f"{place}{_id_of(record)}: {error}") from None
        extra = {PLACE: place} if PLACE in self.features else {}
        return {**row, **extra, INDEX: number}

    def _finish(self, kept: Dataset, total: int, source: str, place: Callable[[int], str]) -> Dataset:
        """Say in the log how many of `total` rows are left out and which, and return the others as the result."""
        if not len(kept):
            raise ValueError(f"{source}: all {total} rows have an empty text, so --skip_empty leaves none.")
        if len(kept) == total:
            kept = kept.remove_columns(INDEX)
        else:
            skipped = sorted(set(range(total)).difference(kept[INDEX]))
            places = ", ".join(map(place, skipped[:MOST_PLACES])) + (", …" if len(skipped) > MOST_PLACES else "")
            message = "%s: leaving out %d of %d rows, which have an empty text: %s."
            logger.warning(message, source, len(skipped), total, places)
        return kept if self.complete is None else self.complete(kept, source)


def check_any(rows: Sized, holds: str, source: str) -> None:
    """Raise `ValueError` if there are no rows."""
    if not len(rows):
        raise ValueError(f"{source}: holds no {holds}.")


def row_numbers(rows: Dataset) -> Sequence[int]:
    """Return the number of each row, from 0, in the file or data set that it is from."""
    return list(rows[INDEX]) if INDEX in rows.column_names else range(len(rows))


def _id_of(record: Any) -> str:
    identifier = record.get("id") if isinstance(record, dict) else None
    return f" (id {str(identifier)[:MOST_OF_ID]})" if isinstance(identifier, (str, int)) else ""
