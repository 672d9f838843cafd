"""Multiple choice: rows with a context, choices and the number of the correct choice, and their model inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from string import ascii_uppercase
from typing import Any

import torch
from datasets import Dataset, Features, List, Value
from transformers import DataCollatorForMultipleChoice, PreTrainedTokenizerBase

from hf_localattn.data.rows import (
    SKIP,
    Column,
    Data,
    EmptyText,
    Record,
    as_list,
    convert_rows,
    describe_value,
    open_source,
    row_numbers,
    shorten,
)

CHOICE_FEATURES = Features({"context": Value("string"), "choices": List(Value("string")), "label": Value("int64")})

SWAG_ENDING = re.compile(r"ending(\d{1,9})")


@dataclass(frozen=True)
class ChoiceColumns:
    """Columns of rows that do not have SWAG's columns.

    SWAG's columns (Zellers et al. 2018) are always recognized: `sent1` is the context, `sent2` is the beginning
    of all choices, and `ending0`, `ending1` and so on are their ends.

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
    data: Data, columns: ChoiceColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Load multiple-choice rows into the columns `context`, `choices` and `label`.

    `choices` is a list of texts that can follow the context, and `label` is the index of the correct choice. If any
    row has no label, the column `label` is missing.

    Args:
        data: a .csv or .tsv file with SWAG's columns, a .json or .jsonl file, or a data set.
        columns: columns of rows that do not have SWAG's columns.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty choice, question or context. If False, an empty choice is an error,
            and question and context may be empty.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid. The message names the row and a remedy.
    """
    source, columns = open_source(data, "rows"), columns or ChoiceColumns()
    label = Column(columns.label, None, required=require_labels, remedy="give --label_column_name")
    others = [Column(name, None, required=False) for name in (columns.context, columns.question, columns.choices)]
    convert = partial(_convert, columns=columns, label=label, may_be_empty=not skip_empty)
    rows = convert_rows(source, [*others, label], CHOICE_FEATURES, convert, skip_empty=skip_empty)
    counts = [len(choices) for choices in rows["choices"]]
    if wrong := [place for place, count in enumerate(counts) if count != counts[0]]:
        where = source.where(row_numbers(rows)[wrong[0]])
        found = f"{counts[wrong[0]]} choices, but {counts[0]} in the first row"
        raise ValueError(f"{where}: {found}; correct or remove rows that differ.")
    return rows.remove_columns("label") if any(label is None for label in rows["label"]) else rows


def _convert(record: Record, columns: ChoiceColumns, label: Column, may_be_empty: bool) -> Record:
    choices, names = _read_choices(record, columns)
    if columns.choices in record:
        texts = [name for name in (columns.context, columns.question) if name in record] or [columns.context]
    else:
        texts = ["sent1", *(["sent2"] if record.get("sent2") else [])]
    remedy = "give --context_column_name or --question_column_name"
    context, *beginning = (
        Column(name, may_be_empty=may_be_empty, remedy=remedy).read(record).strip() for name in texts
    )
    if len(choices) < 2:
        raise ValueError(f"{len(choices)} choices: there must be at least two.")
    for number, choice in enumerate(choices):
        if choice is None or (isinstance(choice, str) and not choice.strip()):
            raise EmptyText(f"choice {number} is empty; {SKIP}")
        if not isinstance(choice, str):
            raise ValueError(f"choice {number} must be a text; found {describe_value(choice)}.")
    choices = [" ".join(filter(None, (*beginning, choice.strip()))) for choice in choices]
    return {"context": context, "choices": choices, "label": _read_label(record, label, choices, names)}


def _read_choices(record: Record, columns: ChoiceColumns) -> tuple[list[Any], list[str]]:
    """Return the choices of a row, and their names, if any."""
    if columns.choices not in record:
        endings = [(int(match[1]), name) for name in record if (match := SWAG_ENDING.fullmatch(str(name)))]
        if not endings:
            found = ", ".join(map(str, record))
            raise ValueError(
                f"has neither {columns.choices!r} nor SWAG's ending0, ending1 … (it has {found}); give"
                " --choices_column_name, a column with lists of texts."
            )
        return [record[name] for _, name in sorted(endings)], []
    choices = as_list(record[columns.choices])
    if isinstance(choices, dict) and isinstance(choices.get("text"), list) and isinstance(choices.get("label"), list):
        return choices["text"], [str(name) for name in choices["label"]]
    if not isinstance(choices, list):
        raise ValueError(f"the field {columns.choices!r} must be a list of texts; found {describe_value(choices)}.")
    return choices, []


def _read_label(record: Record, column: Column, choices: list[str], names: list[str]) -> int | None:
    """Return the number of the correct choice, from 0; None for a row without a label if labels are optional."""
    label = column.read(record)
    if label is None or str(label) in ("", "-1"):
        if column.required:
            raise ValueError(f"the field {str(column)!r} holds no label; found {describe_value(label)}.")
        return None
    name, letters = "" if isinstance(label, bool) else str(label).strip(), ascii_uppercase[: len(choices)]
    if names:
        number = names.index(name) if name in names else -1
    elif choices.count(name) == 1:
        number = choices.index(name)
    elif re.fullmatch(r"\d{1,9}", name):
        number = int(name)
    else:
        number = letters.find(name.upper()) if len(name) == 1 else -1
    if not 0 <= number < len(choices):
        known = ", ".join(names) or f"0 to {len(choices) - 1}, A to {letters[-1]}, or a choice"
        raise ValueError(f"the label {shorten(label)} is none of the {len(choices)} choices; give one of {known}.")
    return number


def choice_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of rows; each input is a list with one entry per choice. `label` is kept, if present.

    An entry encodes the context and one choice. If it exceeds `max_length`, the end of the longer text is cut off.
    """
    counts = [len(choices) for choices in examples["choices"]]
    contexts = [context for context, count in zip(examples["context"], counts, strict=True) for _ in range(count)]
    choices = list(chain.from_iterable(examples["choices"]))
    encoded = tokenizer(contexts, choices, truncation=True, max_length=max_length)
    features = {}
    for name, values in encoded.items():
        rest = iter(values)
        features[name] = [list(islice(rest, count)) for count in counts]
    return {**features, "label": examples["label"]} if "label" in examples else features


class MultipleChoiceCollator(DataCollatorForMultipleChoice):
    """Pad features to tensors of shape (batch, choices, length), with `labels` (batch,) if features have a label."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        if "label" in examples[0]:
            return super().torch_call(examples)
        batch = super().torch_call([{**example, "label": 0} for example in examples])  # the base class requires labels
        del batch["labels"]
        return batch
