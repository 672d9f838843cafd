"""Text classification: rows with a text or a pair of texts and labels, and their model inputs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from datasets import ClassLabel, Dataset, Features, List, Value
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.class_names import find_unclear_name
from hf_localattn.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    LabelFormat,
    infer_format,
    sorted_labels,
)
from hf_localattn.data.rows import (
    PLACE,
    SKIP,
    Column,
    Data,
    EmptyText,
    Record,
    Source,
    convert_rows,
    describe_value,
    open_source,
)
from hf_localattn.errors import shorten
from hf_localattn.settings.columns import TextColumns

logger = logging.getLogger(__name__)

TEXT_COLUMNS = (
    ("text", "text_pair"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("text",),
    ("sentence",),
    ("question",),
)
"""Default names of text columns: the first entry whose columns a data set has is used."""

NAMES = ("text", "text_pair")
"""Names of the text columns of the result."""

LABEL_TYPES = {
    SINGLE_LABEL: Value("string"),
    MULTI_LABEL: List(Value("string")),
    REGRESSION: Value("float32"),
}
"""Types of the labels before classes are numbered."""


def load_texts(
    data: Data, columns: TextColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Load texts into the columns `text`, `text_pair` (for pairs), `label` and `place`.

    `label` is a `ClassLabel`, a list of `ClassLabel`, or a number; None for rows without a label. `place` is the place
    of a row in its file or data set. The names of a data set's `ClassLabel` keep their order. A table in
    docs/text_classification.md shows which labels values stand for.

    Args:
        data: UTF-8 file in `.csv`, `.tsv`, `.json` or `.jsonl` format, or a data set.
        columns (*optional*): Columns of texts and labels.
        require_labels (*optional*, defaults to True): Raise an error for rows without a label.
        skip_empty (*optional*): Leave out rows with an empty text, even if `columns.may_be_empty` is set.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The data are invalid. The message names the row and a remedy.
    """
    source = open_source(data, "texts and labels")
    columns = complete_columns(columns or TextColumns(), source, require_labels=require_labels)
    label_format = _label_format(columns, source)
    may_be_empty = columns.may_be_empty and not skip_empty
    remedy = "give the text columns with --text_column_names"
    texts = [Column(name, may_be_empty=may_be_empty, remedy=remedy) for name in columns.texts or ()]
    label = _label_column(columns, require_labels)
    label_name = str(label)
    names = NAMES[: len(texts)]
    features = Features(dict.fromkeys((*names, "label", PLACE), Value("string")))
    features["label"] = LABEL_TYPES[label_format.problem_type]
    must_have_label = require_labels and not columns.skip_unlabeled
    labels_by_text: dict[str, Any] = {}  # the same few texts occur often

    def read_label(value: Any) -> Any:
        if not isinstance(value, str):
            return label_format.read(value)
        if value not in labels_by_text:
            labels_by_text[value] = label_format.read(value)
        return labels_by_text[value]

    def convert(record: Record) -> Record:
        values = [column.read(record) for column in texts]
        if may_be_empty and not "".join(values).strip():
            raise EmptyText(f"the field {str(texts[0])!r} is empty, and so is the other text of the pair; {SKIP}")
        row = dict(zip(names, values, strict=True))
        value = record[label_name] if label_name in record else label.read(record)
        row["label"] = read_label(value)
        if row["label"] is None and must_have_label:
            raise ValueError(
                f"the field {label_name!r} holds no label; found {describe_value(value)}. Correct the row, or leave"
                " out such rows with --skip_unlabeled."
            )
        return row

    rows = convert_rows(source, [*texts, label], features, convert, skip_empty=skip_empty)
    if require_labels and columns.skip_unlabeled:
        rows = _leave_out_unlabeled(rows, source)
    return rows if label_format.problem_type == REGRESSION else _with_class_names(rows, label_format)


def complete_columns(columns: TextColumns, source: Source, *, require_labels: bool = True) -> TextColumns:
    """Return columns with text columns, problem type and length of vectors of the data where it has none.

    Args:
        columns: Columns as far as they are set.
        source: Rows, of which some are read.
        require_labels (*optional*, defaults to True): Name a missing label column, too, if there are no text columns.

    Raises:
        ValueError: There are no text columns.
    """
    records: Any = source.rows
    if not isinstance(records, Dataset):
        records = [row for _, row in records if isinstance(row, dict)]
    texts = columns.texts or _find_texts(records, source.name, _label_column(columns, require_labels))
    problem_type = columns.problem_type
    vector_length = columns.vector_length
    if problem_type is None or (problem_type == MULTI_LABEL and vector_length is None):
        inferred_type, inferred_length = _infer_format(records, columns.name_of("label"))
        if inferred_type == REGRESSION and columns.names is not None:
            inferred_type = SINGLE_LABEL
        problem_type = problem_type or inferred_type
        vector_length = inferred_length if vector_length is None else vector_length
    return replace(columns, texts=texts, problem_type=problem_type, vector_length=vector_length)


def _infer_format(records: Any, column: str) -> tuple[str, int | None]:
    """Infer the problem type and the length of vectors of a label column, from its type or its values."""
    if not isinstance(records, Dataset):
        return infer_format(record.get(column) for record in records)
    feature = records.features.get(column)
    if isinstance(feature, ClassLabel):
        return SINGLE_LABEL, None
    if isinstance(getattr(feature, "feature", None), ClassLabel):
        return MULTI_LABEL, 0
    if hasattr(feature, "feature"):
        _, vector_length = infer_format(records[column][:])
        return MULTI_LABEL, vector_length
    return infer_format(records.unique(column) if isinstance(feature, Value) else ())


def _label_format(columns: TextColumns, source: Source) -> LabelFormat:
    """Return the format of the labels by `columns`, and by the names that a data set declares."""
    feature = source.rows.features.get(columns.name_of("label")) if isinstance(source.rows, Dataset) else None
    class_label = getattr(feature, "feature", feature)
    declared = tuple(class_label.names) if isinstance(class_label, ClassLabel) else None
    names = columns.names or declared
    unlabeled = columns.unlabeled or names is not None  # -1 is a missing class in `datasets`
    length = columns.vector_length or 0
    if length:
        names = names or tuple(map(str, range(length)))
        length = len(names)
    assert columns.problem_type is not None  # `complete_columns` sets it
    return LabelFormat(columns.problem_type, names, length, unlabeled, declared is not None)


def _label_column(columns: TextColumns, required: bool) -> Column:
    return Column(
        columns.name_of("label"), None, required=required, remedy="give the label column with --label_column_name"
    )


def _find_texts(records: Iterable[Record], name: str, label: Column) -> tuple[str, ...]:
    """Return the first entry of `TEXT_COLUMNS` whose columns contain texts in one of the first 1,000 records."""
    first: Record = {}
    for record in islice(records, 1000):
        for columns in TEXT_COLUMNS:
            if all(isinstance(record.get(column), str) for column in columns):
                return columns
        first = first or record
    missing = "no known text columns"
    remedy = "give one, or two for pairs, with --text_column_names"
    if label.required and label.find(first) is None:
        missing += f", and no column {str(label)!r}"
        remedy += f"; {label.remedy}"
    names = ", ".join(first) or "none"
    raise ValueError(f"{name}: {missing} (it has {names}); {remedy}.")


def _leave_out_unlabeled(rows: Dataset, source: Source) -> Dataset:
    labeled = [row for row, label in enumerate(rows["label"][:]) if label is not None]
    if not labeled:
        raise ValueError(f"{source.name}: no row has a label; give the label column with --label_column_name.")
    if left_out := len(rows) - len(labeled):
        logger.warning("%s: leaving out %d of %d rows, which have no label.", source.name, left_out, len(rows))
        rows = rows.select(labeled)
    return rows


def _with_class_names(rows: Dataset, label_format: LabelFormat) -> Dataset:
    """Give the column `label` the type of its classes; it stays text if no row has a class."""
    has_several = label_format.problem_type == MULTI_LABEL
    names = label_format.names
    if names is None:
        labels = [label for label in rows["label"][:] if label is not None]
        names = tuple(sorted_labels({*chain.from_iterable(labels)} if has_several else {*labels}))
        if unclear := find_unclear_name(names):
            name, problem = unclear
            place = _first_place(rows, name)
            raise ValueError(f"{place}: the label {shorten(name)} {problem}.")
    if not names:
        return rows
    class_label = ClassLabel(names=list(names))
    return rows.cast_column("label", List(class_label) if has_several else class_label)


def _first_place(rows: Dataset, name: str) -> str:
    """Return the place of the first row with a class."""
    labels = zip(rows[PLACE][:], rows["label"][:], strict=True)
    return next(place for place, label in labels if label == name or (isinstance(label, list) and name in label))


def tokenize_texts(
    rows: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of texts or pairs; if one is too long, the end of its longer text is cut. Keep `label`."""
    features = dict(tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=max_length))
    return {**features, "label": rows["label"]} if "label" in rows else features
