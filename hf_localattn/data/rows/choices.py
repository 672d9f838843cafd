"""Rows of multiple choice: a context, choices, and the number of the correct choice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.tables import PathLike, Record, as_list, describe_value, shorten
from hf_localattn.data.schema import PLACE, SKIP, Column, EmptyText, Schema

SWAG_ENDING = re.compile(r"ending(\d{1,9})")


@dataclass(frozen=True)
class ChoiceColumns:
    """Columns of rows that do not have SWAG's columns.

    SWAG's columns (Zellers et al. 2018) are always recognized: `sent1` is the context, `sent2` is the beginning
    of all choices, and `ending0`, `ending1` and so on are their ends. Without `sent1`, `startphrase` is the context.

    Args:
        context: column of the context. It is optional if there is a question.
        question: column of the question. It is put before each choice, and is optional if there is a context.
        choices: column of the choices: a list of texts, or an object with two lists, "text" (the choices) and "label"
            (a name for each choice).
        label: column of the correct choice: its number from 0, its letter (A is the first), its name, or its text.
    """

    context: str = "context"
    question: str = "question"
    choices: str = "choices"
    label: str = "label"


def load_choices(
    path: PathLike, columns: ChoiceColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Read a file of multiple-choice rows into the columns `context`, `choices` and `label`.

    `choices` is a list of texts that can follow the context, and `label` is the index of the correct choice. If any
    row has no label, the column `label` is missing.

    Args:
        path: a .csv or .tsv file with SWAG's columns, or a .json or .jsonl file.
        columns: columns of rows that do not have SWAG's columns.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty choice, question or context. If False, an empty choice is an error,
            and question and context may be empty.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file or one of its rows is invalid. The message names the row and a remedy.
    """
    return _schema(columns or ChoiceColumns(), require_labels, skip_empty).load(Path(path))


def normalize_choices(
    dataset: Dataset,
    name: str = "data set",
    columns: ChoiceColumns | None = None,
    *,
    require_labels: bool = True,
    skip_empty: bool = False,
) -> Dataset:
    """Convert the rows of a data set to the columns of `load_choices`.

    Args:
        dataset: data set from the Hub or any other source.
        name: name of the data set, for error messages.
        columns: columns of rows that do not have SWAG's columns.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty choice, question or context.

    Raises:
        ValueError: a column is missing or a row is invalid. The message names the row and a remedy.
    """
    return _schema(columns or ChoiceColumns(), require_labels, skip_empty).normalize(dataset, name)


def _schema(columns: ChoiceColumns, require_labels: bool, skip_empty: bool) -> Schema:
    label = Column(columns.label, None, required=require_labels, remedy="give --label_column_name")
    others = [Column(name, None, required=False) for name in (columns.context, columns.question, columns.choices)]
    features = Features(
        {"context": Value("string"), "choices": List(Value("string")), "label": Value("int64"), PLACE: Value("string")}
    )
    convert = partial(_convert, columns=columns, label=label, may_be_empty=not skip_empty)
    return Schema("rows", [*others, label], features, convert, skip_empty=skip_empty, complete=_check_counts)


def _check_counts(rows: Dataset, source: str) -> Dataset:
    """Check that all rows have the same number of choices; remove the column `label` if any row has no label."""
    expected = len(rows[0]["choices"])
    for number, choices in enumerate(rows["choices"]):
        if len(choices) != expected:
            raise ValueError(
                f"{rows[number][PLACE]}: {len(choices)} choices, but {expected} in the first row; all rows need the"
                " same number: correct or remove those that differ."
            )
    rows = rows.remove_columns(PLACE)
    return rows.remove_columns("label") if any(label is None for label in rows["label"]) else rows


def _convert(record: Record, columns: ChoiceColumns, label: Column, may_be_empty: bool) -> Record:
    def text(name: str, *options: str) -> str:
        remedy = f"give {' or '.join(options)}" if options else ""
        value: str = Column(name, may_be_empty=may_be_empty, remedy=remedy).read(record)
        return value.strip()

    names: list[str] = []
    beginning = ""
    if columns.choices in record:
        choices, names = _read_choices(record, columns)
        if columns.question not in record:
            context = text(columns.context, "--context_column_name", "--question_column_name")
        elif columns.context not in record:
            context = text(columns.question, "--question_column_name")
        else:
            context = text(columns.context, "--context_column_name")
            beginning = text(columns.question, "--question_column_name")
    else:
        choices = _swag_endings(record, columns)
        if "sent1" in record:
            context = text("sent1")
            beginning = text("sent2") if record.get("sent2") else ""
        else:
            context = text("startphrase")
    if len(choices) < 2:
        raise ValueError(f"{len(choices)} choices: there must be at least two.")
    for number, choice in enumerate(choices):
        if choice is None or (isinstance(choice, str) and not choice.strip()):
            raise EmptyText(f"choice {number} is empty; {SKIP}")
        if not isinstance(choice, str):
            raise ValueError(f"choice {number} must be a text; found {describe_value(choice)}.")
    choices = [choice.strip() for choice in choices]
    if beginning:
        choices = [f"{beginning} {choice}" for choice in choices]
    return {"context": context, "choices": choices, "label": _read_label(record, label, choices, names)}


def _read_choices(record: Record, columns: ChoiceColumns) -> tuple[list[Any], list[str]]:
    """Return the choices of a row with a list of choices, and the names of the choices, if any."""
    choices, names = as_list(record[columns.choices]), []
    if isinstance(choices, dict) and isinstance(choices.get("text"), list) and isinstance(choices.get("label"), list):
        choices, names = choices["text"], [str(name) for name in choices["label"]]
    if not isinstance(choices, list):
        raise ValueError(f"the field {columns.choices!r} must be a list of texts; found {describe_value(choices)}.")
    return choices, names


def _swag_endings(record: Record, columns: ChoiceColumns) -> list[Any]:
    endings = sorted(
        (int(match[1]), name) for name in record if isinstance(name, str) and (match := SWAG_ENDING.fullmatch(name))
    )
    if not endings:
        raise ValueError(
            f"has neither {columns.choices!r} nor SWAG's ending0, ending1 … (it has {', '.join(map(str, record))});"
            " give --choices_column_name, a column with lists of texts (JSON in a .csv file)."
        )
    return [record[name] for _, name in endings]


def _read_label(record: Record, column: Column, choices: list[str], names: list[str]) -> int | None:
    """Return the number of the correct choice; None for a row without a label if labels are optional."""
    label = column.read(record)
    if label is None:
        return None
    if label != "" and str(label) != "-1":
        return _number(label, choices, names)
    if column.required:
        raise ValueError(f"the field {str(column)!r} holds no label; found {describe_value(label)}.")
    return None


def _number(label: Any, choices: list[str], names: list[str]) -> int:
    """Convert a label to the number of the correct choice, from 0."""
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
            or f"0 to {count - 1}, A to {ascii_uppercase[min(count, len(ascii_uppercase)) - 1]}, or a choice"
        )
        raise ValueError(f"the label {shorten(label)} is none of the {count} choices: it must be one of {known}.")
    return number
