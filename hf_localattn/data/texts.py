"""Text classification: rows with a text or a pair of texts and labels, their model inputs, labels from logits."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from datasets import Dataset, Features, List, Value
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Labels,
    infer_problem_type,
    labels_of,
    read_label,
    with_class_labels,
)
from hf_localattn.data.rows import (
    PLACE,
    SKIP,
    Column,
    Data,
    EmptyText,
    Record,
    as_list,
    convert_rows,
    describe_value,
    open_source,
)
from hf_localattn.errors import join_names

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

HEADER_ROWS = 1000
"""Number of rows that are searched for text columns."""


@dataclass(frozen=True)
class TextColumns:
    """Columns of texts and labels, and the kind of labels.

    Attributes:
        texts: text column, or two for pairs; by default an entry of `TEXT_COLUMNS`.
        label: label column.
        names: class names in order; by default inferred from the labels.
        problem_type: `SINGLE_LABEL`, `MULTI_LABEL` or `REGRESSION`; by default inferred from the labels.
        unlabeled: number that means "no label".
        may_be_empty: accept pairs with one empty text.
        skip_unlabeled: leave out rows without a label if labels are required.
    """

    texts: tuple[str, ...] = ()
    label: str = "label"
    names: tuple[str, ...] | None = None
    problem_type: str | None = None
    unlabeled: int | None = None
    may_be_empty: bool = False
    skip_unlabeled: bool = False


def _glue(*texts: str, names: tuple[str, ...] = (), may_be_empty: bool = False) -> TextColumns:
    problem_type = SINGLE_LABEL if names else REGRESSION
    return TextColumns(texts, "label", names or None, problem_type, unlabeled=-1, may_be_empty=may_be_empty)


GLUE_TASKS: dict[str, TextColumns] = {
    "cola": _glue("sentence", names=("unacceptable", "acceptable")),
    "mnli": _glue("premise", "hypothesis", names=("entailment", "neutral", "contradiction")),
    "mrpc": _glue("sentence1", "sentence2", names=("not_equivalent", "equivalent")),
    "qnli": _glue("question", "sentence", names=("entailment", "not_entailment")),
    # a few questions of QQP are empty
    "qqp": _glue("question1", "question2", names=("not_duplicate", "duplicate"), may_be_empty=True),
    "rte": _glue("sentence1", "sentence2", names=("entailment", "not_entailment")),
    "sst2": _glue("sentence", names=("negative", "positive")),
    "stsb": _glue("sentence1", "sentence2"),
    "wnli": _glue("sentence1", "sentence2", names=("not_entailment", "entailment")),
}
"""Columns and classes of GLUE's tasks (Wang et al. 2019), in the Hub's order; test rows have the label -1."""


def load_texts(
    data: Data, layout: TextColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Load texts into the columns `text`, `text_pair` (for pairs), `label` and `place`.

    `label` is a `ClassLabel`, a list of `ClassLabel`, or a number; None for rows without a label. `place` is the place
    of a row in its file or data set. The names of a data set's `ClassLabel` keep their order.

    Args:
        data: UTF-8 file in `.csv`, `.tsv`, `.json` or `.jsonl` format, or a data set. Several classes of a text are a
            list; in tables, a JSON list.
        layout: columns of the data.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty text, even if `layout.may_be_empty` is set.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid. The message names the row and a remedy.
    """
    source, layout = open_source(data, "texts and labels"), layout or TextColumns()
    problem_type, names = layout.problem_type, layout.names
    if isinstance(source.rows, Dataset):
        columns = layout.texts or find_texts(source.rows, source.name)
        kind = source.rows.features.get(layout.label)
        several = isinstance(kind, List)
        names = names or getattr(kind.feature if several else kind, "names", None)
        if problem_type is None:
            found = source.rows.unique(layout.label) if kind is not None and not several else ()
            problem_type = MULTI_LABEL if several else infer_problem_type(found)
    else:
        records = [record for _, record in source.rows if isinstance(record, dict)]
        for record in records:
            if layout.label in record:
                record[layout.label] = as_list(record[layout.label])
        columns = layout.texts or find_texts(records, source.name)
        problem_type = problem_type or infer_problem_type(record.get(layout.label) for record in records)
    remedy = "give the text columns with --text_column_names"
    texts = [Column(column, may_be_empty=layout.may_be_empty and not skip_empty, remedy=remedy) for column in columns]
    label = Column(
        layout.label, None, required=require_labels, remedy="give the label column with --label_column_name"
    )
    labels = {SINGLE_LABEL: Value("string"), MULTI_LABEL: List(Value("string")), REGRESSION: Value("float32")}
    kinds = dict.fromkeys(("text", "text_pair")[: len(columns)], Value("string"))
    features = Features({**kinds, "label": labels[problem_type], PLACE: Value("string")})

    def convert(record: Record) -> Record:
        values = [column.read(record) for column in texts]
        if not "".join(values).strip():
            raise EmptyText(f"the field {str(texts[0])!r} is empty, and so is the other text of the pair; {SKIP}")
        value = record.get(layout.label)
        if not _is_absent(value, layout, names) and (require_labels or str(value) != "-1"):
            value = read_label(value, problem_type, names)
        elif require_labels and layout.label not in record:
            raise label.missing(record)
        elif require_labels and not layout.skip_unlabeled:
            raise ValueError(
                f"the field {layout.label!r} holds no label; found {describe_value(value)}. Correct the row, or leave"
                " out such rows with --skip_unlabeled."
            )
        else:
            value = None
        return {**dict(zip(("text", "text_pair"), values, strict=False)), "label": value}

    rows = convert_rows(source, [*texts, label], features, convert, skip_empty=skip_empty)
    if require_labels and layout.skip_unlabeled:
        rows = _labeled(rows, source.name)
    return with_class_labels(rows, problem_type, names)


def find_texts(records: Iterable[Record], source: str) -> tuple[str, ...]:
    """Return the first entry of `TEXT_COLUMNS` whose columns contain texts in one of the first records.

    Args:
        records: the records; the first `HEADER_ROWS` are searched.
        source: the file or data set, for error messages.

    Raises:
        ValueError: no record has such columns. The message names the columns of the first record.
    """
    has: Record = {}
    for record in islice(records, HEADER_ROWS):
        for columns in TEXT_COLUMNS:
            if all(isinstance(record.get(column), str) for column in columns):
                return columns
        has = has or record
    raise ValueError(
        f"{source}: no known text columns (it has {', '.join(has) or 'none'}). Give one, or two for pairs, with"
        " --text_column_names."
    )


def _is_absent(label: Any, layout: TextColumns, names: tuple[str, ...] | None) -> bool:
    if label is None or (isinstance(label, str) and not label.strip()):
        return True
    if names is not None and label == -1:  # a missing class in `datasets`
        return True
    return layout.unlabeled is not None and str(label) in (f"{layout.unlabeled}", f"{layout.unlabeled}.0")


def _labeled(rows: Dataset, name: str) -> Dataset:
    """Return the rows that have a label, and log the number of rows left out."""
    numbers = [number for number, label in enumerate(rows["label"][:]) if label is not None]
    if not numbers:
        raise ValueError(f"{name}: no row has a label; give the label column with --label_column_name.")
    if len(numbers) < len(rows):
        logger.warning(
            "%s: leaving out %d of %d rows, which have no label.", name, len(rows) - len(numbers), len(rows)
        )
    return rows.select(numbers)


def tokenize_texts(
    rows: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of texts or pairs of texts to at most `max_length` tokens, and keep labels, if present.

    If a pair is too long, the end of the longer text is cut off.
    """
    features = dict(tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=max_length))
    return {**features, "label": rows["label"]} if "label" in rows else features


def number_labels(rows: Dataset, labels: Labels) -> Dataset:
    """Convert the column `label` to training targets, and drop the column `place`.

    A target is the index of a class, a list with 0.0 or 1.0 per class, or a score. If a row has no label, the whole
    column is dropped.

    Raises:
        ValueError: the label of a row is not one of `labels`. The message names the row.
    """
    own = labels_of(rows)
    column = rows["label"][:]
    bare = rows.remove_columns(["label", "place"])
    if own is None or any(label is None for label in column):
        return bare
    numbers = {name: number for number, name in enumerate(labels.names)}

    def encoded(label: Any) -> Any:
        if own.problem_type == REGRESSION == labels.problem_type:
            return label
        if own.problem_type == SINGLE_LABEL and labels.problem_type == REGRESSION:
            # all scores of a split may happen to be whole numbers
            return read_label(own.names[label], REGRESSION)
        if own.problem_type != labels.problem_type:
            raise ValueError(
                f"the labels are for {_problem_name(own)}, but the model predicts {_problem_name(labels)}: give all"
                " splits the same kind of labels."
            )
        for name in (own.names[number] for number in (label if own.problem_type == MULTI_LABEL else [label])):
            if name not in numbers:
                raise ValueError(
                    f"the label {name!r} is outside the label set ({join_names(labels.names, 20)}): correct it, or add"
                    " training rows with it."
                )
        if own.problem_type == SINGLE_LABEL:
            return numbers[own.names[label]]
        hot = {numbers[own.names[number]] for number in label}
        return [float(number in hot) for number in range(len(labels.names))]

    result = []
    for number, label in enumerate(column):
        try:
            result.append(encoded(label))
        except ValueError as error:
            raise ValueError(f"{rows[number]['place']}: {error}") from None
    kinds = {SINGLE_LABEL: Value("int64"), MULTI_LABEL: List(Value("float32")), REGRESSION: Value("float32")}
    return bare.add_column("label", result, feature=kinds[labels.problem_type])


def predictions_from_logits(logits: Any, problem_type: str) -> np.ndarray:
    """Convert logits (N, labels) to class indices (N,), 0 or 1 per class (N, labels), or scores (N,)."""
    logits = logits[0] if isinstance(logits, tuple) else logits  # encoder-decoders also return hidden states
    if problem_type == REGRESSION:
        return logits[:, 0]
    if problem_type == MULTI_LABEL:
        return (logits > 0).astype(int)  # probability > 0.5
    return logits.argmax(axis=-1)


def format_predictions(logits: Any, labels: Labels) -> list[str]:
    """Return the prediction for each row as text: a class name, a JSON list of names, or a score."""
    predictions = predictions_from_logits(logits, labels.problem_type)
    if labels.problem_type == REGRESSION:
        return [f"{score:.3f}" for score in predictions]
    if labels.problem_type == SINGLE_LABEL:
        return [labels.names[number] for number in predictions]
    chosen = ([name for name, hot in zip(labels.names, row, strict=True) if hot] for row in predictions)
    return [json.dumps(names, ensure_ascii=False) for names in chosen]


def _problem_name(labels: Labels) -> str:
    return labels.problem_type.replace("_", " ")
