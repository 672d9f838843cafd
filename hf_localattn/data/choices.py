"""Multiple choice: rows with a context, choices and the number of the correct choice, and their model inputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from string import ascii_letters, ascii_uppercase
from typing import Any

import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from transformers import DataCollatorForMultipleChoice, PreTrainedTokenizerBase

from hf_localattn.data.labels import parse_value
from hf_localattn.data.rows import (
    SKIP,
    TABLE_SUFFIXES,
    Column,
    Data,
    EmptyText,
    Record,
    Source,
    as_list,
    convert_rows,
    describe_missing,
    describe_value,
    find_missing,
    label_column,
    open_source,
    row_indices,
)
from hf_localattn.errors import shorten
from hf_localattn.settings.columns import ChoiceColumns

CHOICE_FEATURES = Features({"context": Value("string"), "choices": List(Value("string")), "label": Value("int64")})

SWAG_ENDING = re.compile(r"ending(\d{1,9})")
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}(\.0*)?")

TEXT_REMEDY = "give --context_column_name or --question_column_name"
CHOICES_REMEDY = "give --choices_column_name, a column with lists of texts, or SWAG's columns sent1, ending0, ending1"


@dataclass(frozen=True)
class ChoiceFormat:
    """Format of the rows of a file or data set.

    Args:
        context: Name of the column of the context.
        question: Name of the column of the question.
        choices: Name of the column of the choices.
        label: Column of the label.
        listed: Columns that rows with a list of choices need.
        swag: Columns that rows with SWAG's endings need.
        is_table: All values are texts, as in .csv files: the label "1" may be the index 1.
        label_names: Names of a `ClassLabel` that are not its indices.
        may_be_empty: Accept an empty question or context.
    """

    context: str
    question: str
    choices: str
    label: Column
    listed: tuple[Column, ...]
    swag: tuple[Column, ...]
    is_table: bool
    label_names: tuple[str, ...] | None
    may_be_empty: bool


def load_choices(
    data: Data, columns: ChoiceColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Load multiple-choice rows into the columns `context`, `choices` and `label`.

    `choices` is a list of texts that can follow the context, and `label` is the index of the correct choice. If some
    rows have no label, the column is named `known_label`, and has None there. If no row has one, it is missing.

    Args:
        data: A .csv or .tsv file with SWAG's columns, a .json or .jsonl file, or a data set.
        columns (*optional*): Columns of rows that do not have SWAG's columns.
        require_labels (*optional*, defaults to True): Raise an error for rows without a label.
        skip_empty (*optional*): Leave out rows with an empty choice, question or context. By default an empty choice
            is an error, and question and context may be empty.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The data are invalid. The message names the row and a remedy.
    """
    source = open_source(data, "rows")
    columns = columns or ChoiceColumns()
    context, question, choices, label_name = map(columns.name_of, ("context", "question", "choices", "label"))
    label = Column(label_name, None, required=require_labels, remedy="give --label_column_name")
    text = Column((context, question), remedy=TEXT_REMEDY)
    names = source.rows.column_names if isinstance(source.rows, Dataset) else None
    layout = ChoiceFormat(
        context=context,
        question=question,
        choices=choices,
        label=label,
        listed=(text, Column(choices, remedy=CHOICES_REMEDY), label),
        swag=(Column("sent1"), label),
        is_table=names is None and source.name.endswith(TABLE_SUFFIXES),
        label_names=_label_names(source, label_name),
        may_be_empty=not skip_empty,
    )
    required = _required_columns(layout, names or ())
    convert = partial(_convert, layout=layout)
    rows = convert_rows(source, required, CHOICE_FEATURES, convert, skip_empty=skip_empty)
    counts = [len(choices) for choices in rows["choices"]]
    for index, count in zip(row_indices(rows), counts, strict=True):
        if count != counts[0]:
            problem = f"{count} choices, but {counts[0]} in the first row"
            raise ValueError(f"{source.where(index)}: {problem}; correct or remove rows that differ.")
    column = label_column(rows["label"][:])
    if column is None:
        return rows.remove_columns("label")
    return rows if column == "label" else rows.rename_column("label", column)


def _label_names(source: Source, column: str) -> tuple[str, ...] | None:
    """Return the names of a data set's `ClassLabel`; None if they are the indices."""
    feature = source.rows.features.get(column) if isinstance(source.rows, Dataset) else None
    if not isinstance(feature, ClassLabel) or feature.names == [str(index) for index in range(feature.num_classes)]:
        return None
    return tuple(feature.names)


def _convert(record: Record, layout: ChoiceFormat) -> Record:
    if missing := find_missing(_required_columns(layout, record), record):
        raise ValueError(describe_missing(missing, record))
    endings = [] if layout.choices in record else _swag_endings(record)
    texts, names = _read_choices(record, layout.choices, endings)
    context, *beginning = _read_texts(record, layout, bool(endings))
    if len(texts) < 2:
        raise ValueError(f"{len(texts)} choices: there must be at least two.")
    for index, text in enumerate(texts):
        if text is None or (isinstance(text, str) and not text.strip()):
            raise EmptyText(f"choice {index} is empty; {SKIP}")
        if not isinstance(text, str):
            raise ValueError(f"choice {index} must be a text; found {describe_value(text)}.")
    beginning = list(filter(None, beginning))
    return {
        "context": context,
        "choices": [" ".join((*beginning, text.strip())) for text in texts],
        "label": _read_label(record, layout, [" ".join(text.split()) for text in texts], names),
    }


def _read_texts(record: Record, layout: ChoiceFormat, is_swag: bool) -> list[str]:
    """Return the context of a row, or the question if it has no context, and the beginning of its choices, if any."""
    if not is_swag:
        names = [name for name in (layout.context, layout.question) if name in record]
    else:
        names = ["sent1", "sent2"] if record.get("sent2") else ["sent1"]
    texts = []
    for name in names:
        column = Column(name, may_be_empty=layout.may_be_empty, remedy=TEXT_REMEDY)
        texts.append(column.read(record).strip())
    return texts


def _required_columns(layout: ChoiceFormat, present: Collection[str]) -> tuple[Column, ...]:
    """Return the columns that rows with these columns need: SWAG's if they have its endings."""
    is_swag = layout.choices not in present and _swag_endings(present)
    return layout.swag if is_swag else layout.listed


def _swag_endings(present: Iterable[str]) -> list[str]:
    """Return SWAG's columns with endings, in order."""
    endings = [name for name in present if SWAG_ENDING.fullmatch(str(name))]
    return sorted(endings, key=lambda name: int(name.removeprefix("ending")))


def _read_choices(record: Record, column: str, endings: list[str]) -> tuple[list[Any], list[str]]:
    """Return the choices of a row, and their names, if any."""
    if endings:
        return [record[name] for name in endings], []
    choices = as_list(record[column])
    if isinstance(choices, list):
        return choices, []
    texts = choices.get("text") if isinstance(choices, dict) else None
    labels = choices.get("label") if isinstance(choices, dict) else None
    if not isinstance(texts, list) or not isinstance(labels, list):
        raise ValueError(
            f"the field {column!r} must be a list of texts, as JSON in a cell; found {describe_value(choices)}."
        )
    names = [str(label) for label in labels]
    if not len(texts) == len(names) == len(set(names)):
        raise ValueError(
            f"the field {column!r} needs one name for each of its {len(texts)} texts; found {shorten(names)}."
        )
    return texts, names


def _read_label(record: Record, layout: ChoiceFormat, choices: list[str], names: list[str]) -> int | None:
    """Return the index of the correct choice; None for a row without a label if labels are optional.

    A number is an index. A text is the name of a choice, its text, the index or its letter: the first of these that
    fits. A text that may be the index of another choice is an error in tables, whose numbers are texts.
    """
    label = layout.label.read(record)
    if _is_missing(label, choices):
        if layout.label.required:
            raise ValueError(f"the field {str(layout.label)!r} holds no label; found {describe_value(label)}.")
        return None
    class_names = layout.label_names or ()
    is_integer = isinstance(label, int) and not isinstance(label, bool)
    if is_integer and 0 <= label < len(class_names):
        label = class_names[label]
    index = None
    if isinstance(label, str):
        index = _find_choice(" ".join(label.split()), choices, names, layout.is_table)
    elif is_integer or (isinstance(label, float) and label.is_integer()):
        index = int(label)
        if str(index) in names and names.index(str(index)) != index:
            raise ValueError(f"the label {label} is the name of one choice and the index of another; write a text.")
    if index is None or not 0 <= index < len(choices):
        last_letter = ascii_uppercase[: len(choices)][-1]
        allowed = ", ".join(names) or f"0 to {len(choices) - 1}, A to {last_letter}, or a choice"
        raise ValueError(f"the label {shorten(label)} is none of the {len(choices)} choices; give one of {allowed}.")
    return index


def _is_missing(label: Any, choices: list[str]) -> bool:
    if isinstance(label, str) and " ".join(label.split()) in choices:
        return False
    return parse_value(label) in (None, -1, "-1")


def _find_choice(label: str, choices: list[str], names: list[str], is_table: bool) -> int | None:
    """Return the index of the choice that a text stands for; None if there is none."""
    if label in names:
        return names.index(label)
    index = int(label.partition(".")[0]) if WHOLE_NUMBER.fullmatch(label) else None
    if label in choices:
        by_text = choices.index(label)
        if choices.count(label) > 1:
            raise ValueError(f"the label {shorten(label)} is the text of several choices; give its index or letter.")
        if is_table and index is not None and index != by_text and index < len(choices):
            raise ValueError(f"the label {label} is the text of one choice and the index of another; give a letter.")
        return by_text
    if names:
        return None
    if len(label) == 1 and label in ascii_letters:
        return ascii_uppercase.index(label.upper())
    return index


def choice_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of rows; each input is a list with one entry per choice. `label` is kept, if present.

    An entry encodes the context and one choice. If it exceeds `max_length`, the end of the longer text is cut off.
    """
    contexts: list[str] = []
    for context, choices in zip(examples["context"], examples["choices"], strict=True):
        contexts += [context] * len(choices)
    all_choices = list(chain.from_iterable(examples["choices"]))
    encoded = tokenizer(contexts, all_choices, truncation=True, max_length=max_length)
    features = {}
    for name, values in encoded.items():
        rest = iter(values)
        features[name] = [list(islice(rest, len(choices))) for choices in examples["choices"]]
    return {**features, "label": examples["label"]} if "label" in examples else features


class MultipleChoiceCollator(DataCollatorForMultipleChoice):
    """Pad features to tensors of shape (batch, choices, length), with `labels` (batch,) if features have a label."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        if "label" in examples[0]:
            return super().torch_call(examples)
        batch = super().torch_call([{**example, "label": 0} for example in examples])  # the base class requires labels
        del batch["labels"]
        return batch
