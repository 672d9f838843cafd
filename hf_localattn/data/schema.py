"""Row schemas: the columns of a task's rows, and the validation of rows from any source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value

from hf_localattn.data.readers.tables import SUFFIXES, Record, describe_value, first_row, is_part, read_rows

logger = logging.getLogger(__name__)

INDEX = "index"
"""Number of each row, from 0, in its file or data set.

This column exists only if rows have been left out, or if the rows are a part of a stream.
"""

PLACE = "place"
"""Place of each row, for error messages. This column exists if it is in the features of a schema."""

MOST_PLACES = 10
"""Maximum number of left-out rows that a log message names."""

MOST_OF_ID = 60
"""Maximum number of characters of a row's id in error messages."""

SKIP = "correct the row, or leave out such rows with skip_empty=True (scripts: --skip_empty)."


class EmptyText(ValueError):
    """An input text is empty."""


@dataclass(frozen=True)
class Column:
    """A column of the data.

    Args:
        names: name of the column, or several names. The first name found in a row is used.
        kind: type of the values: `str` for texts, `list` for lists of texts, None for any type.
        required: raise an error for rows without a value.
        may_be_empty: accept blank texts, empty lists, and lists in which every text is blank.
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
        """Return the first of the names that is in `present`; None if the column is missing."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        return next((name for name in names if name in present), None)

    def read(self, record: Record) -> Any:
        """Return the value of a row; None if an optional column is missing.

        Raises:
            EmptyText: a text is blank or None.
            ValueError: the value is missing or has another type.
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
        """Return the error for a row without a value."""
        name = self.find(record)
        if name is not None:
            absent = f"the field {name!r} is missing: its value is None{self.advice}"
            return ValueError(f"{absent}.") if self.kind is None else EmptyText(f"{absent}; {SKIP}")
        found = ", ".join(map(str, record)) or "none"
        return ValueError(f"the field {str(self)!r} is missing (found {found}){self.advice}.")

    @property
    def advice(self) -> str:
        """Remedy as the end of a sentence."""
        return f"; {self.remedy}" if self.remedy else ""


@dataclass(frozen=True)
class Schema:
    """Schema of the rows of a task.

    Args:
        holds: name of the rows in error messages, such as "questions".
        columns: columns of the input.
        features: columns of the result.
        convert: function that converts a record to a row of the result. Its errors need not name the record.
        suffixes: extensions of files that can be read.
        skip_empty: leave out rows with an empty text.
        complete: function of the rows and the name of their source. Checks all rows together, and returns the result.
    """

    holds: str
    columns: Sequence[Column]
    features: Features
    convert: Callable[[Record], Record]
    suffixes: Sequence[str] = SUFFIXES
    skip_empty: bool = False
    complete: Callable[[Dataset, str], Dataset] | None = None

    def load(self, path: Path) -> Dataset:
        """Read the rows of a file.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file or one of its rows is invalid. The message names the line and a remedy.
        """
        return self.read(read_rows(path, suffixes=self.suffixes, what=self.holds), str(path))

    def read(self, records: Sequence[tuple[str, Any]], source: str) -> Dataset:
        """Convert the records of a parsed file to rows.

        Args:
            records: records, each with its place in the file.
            source: the file, for error messages.

        Raises:
            ValueError: there are no records, or a record is invalid. The message names the place and a remedy.
        """
        check_any(records, self.holds, source)
        numbered = enumerate(records, start=first_row())
        rows = [self._row(record, f"{source}, {place}", number) for number, (place, record) in numbered]
        kept = Dataset.from_dict(self._by_column(rows), features=self._all_features)
        return self._finish(kept, len(records), source, lambda number: records[number - first_row()][0])

    def normalize(self, dataset: Dataset, name: str) -> Dataset:
        """Convert the rows of a data set.

        Args:
            dataset: data set from the Hub or any other source.
            name: name of the data set, for error messages.

        Raises:
            ValueError: a column is missing, or a row is invalid. The message names the row and a remedy.
        """
        check_any(dataset, self.holds, name)
        missing = [column for column in self.columns if column.required and not column.find(dataset.column_names)]
        if missing:
            has = ", ".join(dataset.column_names)
            names = ", ".join(repr(str(column)) for column in missing)
            raise ValueError(f"{name}: has no column {names} (it has {has}){missing[0].advice}.")

        first = first_row()

        def convert(batch: Any, numbers: list[int]) -> dict[str, list[Any]]:
            records = (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
            rows = [
                self._row(record, f"{name}, row {first + number + 1}", first + number)
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
        """Convert a record to a row; return None if it is left out."""
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
        """Log the rows that were left out of `total`, and return the complete result."""
        first = first_row()
        if not len(kept) and not is_part():
            raise ValueError(f"{source}: all {total} rows have an empty text, so --skip_empty leaves none.")
        if len(kept) == total:
            kept = kept if is_part() else kept.remove_columns(INDEX)
        else:
            skipped = sorted(set(range(first, first + total)).difference(kept[INDEX]))
            places = ", ".join(map(place, skipped[:MOST_PLACES])) + (", …" if len(skipped) > MOST_PLACES else "")
            message = "%s: leaving out %d of %d rows, which have an empty text: %s."
            logger.warning(message, source, len(skipped), total, places)
        return kept if self.complete is None else self.complete(kept, source)


def check_any(rows: Sized, holds: str, source: str) -> None:
    """Raise `ValueError` if there are no rows."""
    if not len(rows):
        raise ValueError(f"{source}: holds no {holds}.")


def row_numbers(rows: Dataset) -> Sequence[int]:
    """Return the number of each row, from 0, in its file or data set."""
    return list(rows[INDEX]) if INDEX in rows.column_names else range(len(rows))


def _id_of(record: Any) -> str:
    identifier = record.get("id") if isinstance(record, dict) else None
    return f" (id {str(identifier)[:MOST_OF_ID]})" if isinstance(identifier, (str, int)) else ""
