"""Tables of predictions: each row of the input with its index, its prediction and its probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from datasets import Dataset

from hf_localattn.data.rows import INPUT, row_indices
from hf_localattn.parsing import format_csv

INDEX = "row_index"


def prediction_columns(names: Iterable[object]) -> list[str]:
    """Return the columns that a table has after those of the input. `names` are classes or choices."""
    return ["prediction", *(f"probability_{name}" for name in names)]


def check_input_columns(source: str, rows: Dataset, names: Iterable[object]) -> None:
    """Raise `ValueError` if the input has a column that the table adds. Other rows have no column `INPUT`."""
    added = {INDEX, *prediction_columns(names)}
    for text in rows[INPUT] if INPUT in rows.column_names else ():
        if common := added.intersection(json.loads(text)):
            raise ValueError(f"{source}: predictions.csv adds the column {min(common)!r}: rename that of the data.")


def prediction_table(rows: Dataset, names: Iterable[object], predictions: Iterable[Any], shares: np.ndarray) -> str:
    """Return a table as CSV. A value of the input that is no text is written as JSON.

    Args:
        rows: Rows with the column `INPUT`.
        names: Classes or choices.
        predictions: Prediction for each row.
        shares: Probabilities (N, names).
    """
    inputs = [json.loads(text) for text in rows[INPUT]]
    columns = dict.fromkeys(name for record in inputs for name in record)
    table = [[INDEX, *columns, *prediction_columns(names)]]
    for index, record, prediction, row in zip(row_indices(rows), inputs, predictions, shares, strict=True):
        cells = [_cell(record.get(name)) for name in columns]
        table.append([index, *cells, prediction, *(f"{share:.6g}" for share in row)])
    return format_csv(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
