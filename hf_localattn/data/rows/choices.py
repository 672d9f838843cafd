"""Texts to choose from: files and Hub data sets, checked before anything is trained on them, and model inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.tables import Record, as_list, read_rows, shape_of, shorten

SWAG_ENDING = re.compile(r"ending(\d{1,9})")


@dataclass(frozen=True)
class ChoiceColumns:
    """Where context, question, choices and label are in rows that are not SWAG's.

    The columns of SWAG (Zellers et al. 2018) are known without: `sent1` is the context, `sent2` begins each of
    `ending0`, `ending1` and so on; instead of these two, `startphrase` has both.

    Args:
        context: the text that the choices go on, or are about; need not be there if a question is.
        question: begins each choice; need not be there if a context is.
        choices: a list of texts; or an object of such lists, "text" and "label", the latter with the choices' names.
        label: the number of the right one from 0, its letter (A is the first), its name, or its text.
    """

    context: str = "context"
    question: str = "question"
    choices: str = "choices"
    label: str = "label"


def load_choices(
    path: str | os.PathLike[str], columns: ChoiceColumns | None = None, *, require_labels: bool = True
) -> Dataset:
    """Read a file of multiple-choice rows into the columns context, choices and label.

    The context is the text that comes first, choices are a list of texts that may follow it, and the label is the
    number of the right one, from 0. If a row has no label, there is no such column.

    Args:
        path: a .csv or .tsv (with SWAG's columns), .json or .jsonl file.
        columns: where things are in other rows than SWAG's.
        require_labels: whether a row without a label is an error.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file or one of its rows cannot be used; names the row and the remedy.
    """
    rows = read_rows(Path(path), what="choices")
    if not rows:
        raise ValueError(f"{path}: holds no rows.")
    return _checked(((f"{path}, {where}", row) for where, row in rows), columns or ChoiceColumns(), require_labels)


def normalize_choices(
    dataset: Dataset, name: str = "data set", columns: ChoiceColumns | None = None, *, require_labels: bool = True
) -> Dataset:
    """Make the checks of `load_choices` on a data set from elsewhere, and return it in the same form.

    Raises:
        ValueError: a column is missing or a row cannot be used; names the row and the remedy.
    """
    if len(dataset) == 0:
        raise ValueError(f"{name}: holds no rows.")
    rows = ((f"{name}, row {number}", dict(row)) for number, row in enumerate(dataset, start=1))
    return _checked(rows, columns or ChoiceColumns(), require_labels)


def _checked(places: Iterable[tuple[str, Any]], columns: ChoiceColumns, require_labels: bool) -> Dataset:
    """The rows in the form that is common to all layouts."""
    rows: list[Record] = []
    for where, record in places:
        try:
            rows.append(_normalised(record, columns, require_labels))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if (count := len(rows[-1]["choices"])) != (expected := len(rows[0]["choices"])):
            raise ValueError(
                f"{where}: {count} choices, but {expected} in the first row; all rows need as many: fill up or drop"
                " those that differ."
            )
    features = Features({"context": Value("string"), "choices": List(Value("string")), "label": Value("int64")})
    data = Dataset.from_list(rows, features=features)
    return data.remove_columns("label") if any(row["label"] is None for row in rows) else data


def _normalised(record: Any, columns: ChoiceColumns, require_labels: bool) -> Record:
    """Context, choices and label of a row; raises ValueError without saying where."""
    if not isinstance(record, dict):
        raise ValueError(f"expected an object with context, choices and label; found {shape_of(record)}.")
    names: list[str] = []
    if columns.choices in record:
        context, choices, names = _general(record, columns)
    else:
        context, choices = _swag(record, columns)
    if len(choices) < 2:
        raise ValueError(f"{len(choices)} choices: there must be two at least.")
    for number, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice.strip():
            raise ValueError(f"choice {number} must be a text; found {shape_of(choice)}.")
    label = record.get(columns.label)
    if label is None or label == "" or str(label) == "-1":
        if require_labels:
            raise ValueError(f"has no {columns.label!r} (it has {', '.join(record)}); give --label_column_name.")
        right = None
    else:
        right = _number(label, [choice.strip() for choice in choices], names)
    return {"context": context, "choices": [choice.strip() for choice in choices], "label": right}


def _general(record: Record, columns: ChoiceColumns) -> tuple[str, list[Any], list[str]]:
    """Context, choices and the choices' names of a row with a list of choices."""
    choices, names = as_list(record[columns.choices]), []
    if isinstance(choices, dict) and isinstance(choices.get("text"), list) and isinstance(choices.get("label"), list):
        choices, names = choices["text"], [str(name) for name in choices["label"]]
    if not isinstance(choices, list):
        raise ValueError(f"{columns.choices!r} must be a list of texts; found {shape_of(choices)}.")
    if columns.question not in record:
        return _text(record, columns.context, "--context_column_name or --question_column_name"), choices, names
    question = _text(record, columns.question, "--question_column_name")
    if columns.context not in record:
        return question, choices, names
    context = _text(record, columns.context, "--context_column_name")
    return context, _begun(question, choices), names


def _swag(record: Record, columns: ChoiceColumns) -> tuple[str, list[Any]]:
    """Context and choices of a row with SWAG's columns."""
    endings = sorted(
        (int(match[1]), name) for name in record if isinstance(name, str) and (match := SWAG_ENDING.fullmatch(name))
    )
    if not endings:
        raise ValueError(
            f"has neither {columns.choices!r} nor SWAG's ending0, ending1 … (it has {', '.join(map(str, record))});"
            " give --choices_column_name, a column with lists of texts (in a .csv file written as json)."
        )
    choices = [record[name] for _, name in endings]
    if "sent1" in record:
        context = _text(record, "sent1")
        return context, _begun(_text(record, "sent2"), choices) if record.get("sent2") else choices
    return _text(record, "startphrase"), choices


def _begun(beginning: str, choices: list[Any]) -> list[Any]:
    return [
        f"{beginning} {choice.strip()}" if isinstance(choice, str) and choice.strip() else choice for choice in choices
    ]


def _text(record: Record, column: str, option: str = "") -> str:
    text = record.get(column)
    if text is None:
        raise ValueError(f"has no {column!r} (it has {', '.join(record)})" + (f"; give {option}." if option else "."))
    if not isinstance(text, str):
        raise ValueError(f"{column!r} must be a text; found {shape_of(text)}.")
    return text.strip()


def _number(label: Any, choices: list[str], names: list[str]) -> int:
    """The number of the right choice, from 0."""
    name, count = "" if isinstance(label, bool) else str(label).strip(), len(choices)
    if names:
        number = names.index(name) if name in names else -1
    elif choices.count(name) == 1:
        number = choices.index(name)
    elif re.fullmatch(r"\d{1,9}", name):
        number = int(name)
    else:
        number = ascii_uppercase.find(name.upper()) if len(name) == 1 else -1
    if not 0 <= number < count:
        known = (
            ", ".join(names)
            or f"0 to {count - 1}, A to {ascii_uppercase[min(count, len(ascii_uppercase)) - 1]}, or the right text"
        )
        raise ValueError(f"the label {shorten(label)} is none of the {count} choices: it must be one of {known}.")
    return number
