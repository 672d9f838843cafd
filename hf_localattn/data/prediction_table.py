"""Tables of predictions: the rows of the input, each with its index, its prediction and its probabilities."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datasets import Dataset

from hf_localattn.data.rows import INPUT, PLACE, row_numbers

INDEX = "row_index"
PREDICTION = "prediction"


def probability_of(name: object) -> str:
    """Return the name of the column with the probability of a class or choice."""
    return f"probability_{name}"


def check_input_columns(rows: Dataset, names: Iterable[str]) -> None:
    """Check that no row has a column that the table adds.

    Args:
        rows: Rows with the column `INPUT`, and `PLACE` if the task asked for it.
        names: Names of the added columns, except `INDEX`.

    Raises:
        ValueError: A row has such a column.
    """
    added = {INDEX, *names}
    for row in rows:
        if common := sorted(added.intersection(json.loads(row[INPUT]))):
            place = row.get(PLACE, "The test data")
            raise ValueError(
                f"{place}: predictions.csv adds the column {common[0]!r}, which the data have: rename it."
            )


def prediction_table(rows: Dataset, columns: Mapping[str, Sequence[Any]]) -> str:
    """Return a table as CSV: the index of each row from 0, the columns of the input, and those of the predictions.

    Numbers of predictions have six digits. A value of the input that is no text is written as JSON.

    Args:
        rows: Rows with the column `INPUT`.
        columns: Values for each row by the name of the column.
    """
    inputs = [json.loads(text) for text in rows[INPUT]]
    input_names = dict.fromkeys(name for record in inputs for name in record)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([INDEX, *input_names, *columns])
    for index, record, *predicted in zip(row_numbers(rows), inputs, *columns.values(), strict=True):
        values = [_cell(record.get(name)) for name in input_names]
        writer.writerow([index, *values, *map(_digits, predicted)])
    return text.getvalue()


def _cell(value: Any) -> str:
    """Return a value as the cell that the loaders read as the same value."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _digits(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
