"""Text classification: rows with a text or a pair of texts and labels, their model inputs, labels from logits."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from datasets import ClassLabel, Dataset, Features, List, Value
from transformers import PreTrainedTokenizerBase

from hf_localattn.data.rows import (
    INTEGER,
    PLACE,
    SKIP,
    Column,
    Data,
    EmptyText,
    Record,
    Source,
    as_list,
    convert_rows,
    describe_value,
    open_source,
    shorten,
    sorted_labels,
)
from hf_localattn.errors import join_names

logger = logging.getLogger(__name__)

SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Problem types as in transformers: one class, any number of classes, or a number."""

_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")

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


@dataclass(frozen=True)
class Labels:
    """Label set of a model or data set: the problem type, and the class names in order (none for scores)."""

    problem_type: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problem_type == REGRESSION:
            return "a score"
        several = "any number of" if self.problem_type == MULTI_LABEL else "one of"
        return f"{several} {len(self.names)} classes ({join_names(self.names, 20)})"

    @property
    def num_labels(self) -> int:
        """Number of logits."""
        return 1 if self.problem_type == REGRESSION else len(self.names)


@dataclass(frozen=True)
class TextColumns:
    """Columns of texts and labels, and the kind of labels.

    Attributes:
        texts: text column, or two for pairs; by default an entry of `TEXT_COLUMNS`.
        label: label column.
        names: class names in order; by default inferred from the labels.
        problem_type: `SINGLE_LABEL`, `MULTI_LABEL` or `REGRESSION`; by default inferred from the labels.
        unlabeled: True if -1 means "no label".
        may_be_empty: accept pairs with one empty text.
        skip_unlabeled: leave out rows without a label if labels are required.
    """

    texts: tuple[str, ...] = ()
    label: str = "label"
    names: tuple[str, ...] | None = None
    problem_type: str | None = None
    unlabeled: bool = False
    may_be_empty: bool = False
    skip_unlabeled: bool = False


def _glue(*texts: str, names: tuple[str, ...] = (), may_be_empty: bool = False) -> TextColumns:
    problem_type = SINGLE_LABEL if names else REGRESSION
    return TextColumns(texts, "label", names or None, problem_type, unlabeled=True, may_be_empty=may_be_empty)


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
    data: Data, columns: TextColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Load texts into the columns `text`, `text_pair` (for pairs), `label` and `place`.

    `label` is a `ClassLabel`, a list of `ClassLabel`, or a number; None for rows without a label. `place` is the place
    of a row in its file or data set. The names of a data set's `ClassLabel` keep their order.

    Args:
        data: UTF-8 file in `.csv`, `.tsv`, `.json` or `.jsonl` format, or a data set. Several classes of a text are a
            list, or the text of a JSON list.
        columns: columns of texts and labels.
        require_labels: raise an error for rows without a label.
        skip_empty: leave out rows with an empty text, even if `columns.may_be_empty` is set.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid. The message names the row and a remedy.
    """
    source = open_source(data, "texts and labels")
    layout = _complete(columns or TextColumns(), source)
    assert layout.problem_type is not None
    remedy = "give the text columns with --text_column_names"
    may_be_empty = layout.may_be_empty and not skip_empty
    texts = [Column(column, may_be_empty=may_be_empty, remedy=remedy) for column in layout.texts]
    label = Column(
        layout.label, None, required=require_labels, remedy="give the label column with --label_column_name"
    )
    labels = {SINGLE_LABEL: Value("string"), MULTI_LABEL: List(Value("string")), REGRESSION: Value("float32")}
    names = ("text", "text_pair")[: len(texts)]
    features = Features(
        {**dict.fromkeys(names, Value("string")), "label": labels[layout.problem_type], PLACE: Value("string")}
    )

    no_label = {""} if require_labels else {"", "-1"}
    if layout.names is not None or layout.unlabeled:  # -1 is a missing class in `datasets`
        no_label |= {"-1", "-1.0"}

    def convert(record: Record) -> Record:
        values = [column.read(record) for column in texts]
        if may_be_empty and not "".join(values).strip():
            raise EmptyText(f"the field {str(texts[0])!r} is empty, and so is the other text of the pair; {SKIP}")
        value = as_list(record.get(layout.label) if layout.label in record else label.read(record))
        if value is not None and str(value).strip() not in no_label:
            value = read_label(value, layout.problem_type, layout.names)
        elif require_labels and not layout.skip_unlabeled:
            raise ValueError(
                f"the field {layout.label!r} holds no label; found {describe_value(value)}. Correct the row, or leave"
                " out such rows with --skip_unlabeled."
            )
        else:
            value = None
        return {**dict(zip(names, values, strict=True)), "label": value}

    rows = convert_rows(source, [*texts, label], features, convert, skip_empty=skip_empty)
    if require_labels and layout.skip_unlabeled:
        numbers = [number for number, value in enumerate(rows["label"][:]) if value is not None]
        if not numbers:
            raise ValueError(f"{source.name}: no row has a label; give the label column with --label_column_name.")
        if left_out := len(rows) - len(numbers):
            message = "%s: leaving out %d of %d rows, which have no label."
            logger.warning(message, source.name, left_out, len(rows))
            rows = rows.select(numbers)
    classes = layout.names
    if classes is None and layout.problem_type != REGRESSION:
        several = layout.problem_type == MULTI_LABEL
        found = {name for label in rows["label"][:] if label for name in (label if several else [label])}
        classes = tuple(sorted_labels(found))
    if not classes or layout.problem_type == REGRESSION:
        return rows
    kind = ClassLabel(names=list(classes))
    return rows.cast_column("label", List(kind) if layout.problem_type == MULTI_LABEL else kind)


def _complete(layout: TextColumns, source: Source) -> TextColumns:
    """Return a layout with the text columns, class names and problem type of the data where it has none."""
    records: Any = source.rows
    if isinstance(records, Dataset):
        kind = records.features.get(layout.label)
        names = getattr(getattr(kind, "feature", kind), "names", None)
        labels = [[]] if isinstance(kind, List) else () if kind is None else records.unique(layout.label)
    else:
        records = [row for _, row in records if isinstance(row, dict)]
        names, labels = None, (row.get(layout.label) for row in records)
    problem_type = layout.problem_type or infer_problem_type(labels)
    texts = layout.texts or _find_texts(records, source.name)
    return replace(layout, texts=texts, names=layout.names or names, problem_type=problem_type)


def infer_problem_type(labels: Iterable[Any]) -> str:
    """Return the problem type of labels, numbers or strings, with a warning if scores may be classes.

    Lists are sets of classes, numbers with a decimal point are scores, and all other labels are classes.
    """
    problem, texts = SINGLE_LABEL, set()
    for label in map(as_list, labels):
        if isinstance(label, list):
            return MULTI_LABEL
        text = "" if label is None else str(label).strip()
        if isinstance(label, float) or (isinstance(label, str) and text not in texts and _FRACTION.fullmatch(text)):
            problem = REGRESSION
        texts.add(text)
    if problem == REGRESSION and len(texts) <= 20 and all(_WHOLE.fullmatch(text) for text in texts - {""}):
        # pandas writes whole numbers with ".0" if the column has a missing value
        logger.warning(
            "The labels are whole numbers with a decimal point (%s) and are taken for scores: pass --do_regression"
            " false if they are classes, or true if they are scores.",
            ", ".join(sorted(texts - {""}, key=float)),
        )
    return problem


def read_label(label: Any, problem_type: str | None, names: Sequence[str] | None = None) -> Any:
    """Convert a label, or an index of `names`, to a class name, a sorted list of class names, or a number."""
    if problem_type == REGRESSION:
        return _number(label)
    if problem_type == MULTI_LABEL:
        if not isinstance(label, list):
            raise ValueError(f"the label must be a list, as in other rows; found {describe_value(label)}.")
        return sorted({_name(part, names) for part in label})
    return _name(label, names)


def labels_of(rows: Dataset) -> Labels | None:
    """Return the label set from the type of the column `label`; None if the column is text: no row has a label."""
    kind = rows.features["label"]
    if isinstance(kind, List) and isinstance(kind.feature, ClassLabel):
        return Labels(MULTI_LABEL, tuple(kind.feature.names))
    if isinstance(kind, ClassLabel):
        return Labels(SINGLE_LABEL, tuple(kind.names))
    return Labels(REGRESSION) if kind == Value("float32") else None


def _name(label: Any, names: Sequence[str] | None) -> str:
    if isinstance(label, (bool, int, float)):
        name = str(label).lower()  # booleans as in JSON
    elif isinstance(label, str) and label.strip():
        name = " ".join(label.split())
    else:
        raise ValueError(f"the label must be a name or a whole number; found {describe_value(label)}.")
    if names is None or (name in names and isinstance(label, str)):
        return name
    if INTEGER.fullmatch(name) and 0 <= int(name) < len(names):
        return names[int(name)]
    raise ValueError(
        f"the label {shorten(label)} is outside the label set ({join_names(names, 20)}; or 0 to {len(names) - 1})."
    )


def _number(label: Any) -> float:
    try:
        number = math.nan if isinstance(label, bool) else float(label)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        problem = f"the label {shorten(label)} is not a number, but the labels are scores"
        raise ValueError(f"{problem}: correct it, or pass --do_regression false if labels are names.")
    return number


def _find_texts(records: Iterable[Record], source: str) -> tuple[str, ...]:
    """Return the first entry of `TEXT_COLUMNS` whose columns contain texts in one of the first 1,000 records."""
    has: Record = {}
    for record in islice(records, 1000):
        for columns in TEXT_COLUMNS:
            if all(isinstance(record.get(column), str) for column in columns):
                return columns
        has = has or record
    raise ValueError(
        f"{source}: no known text columns (it has {', '.join(has) or 'none'}). Give one, or two for pairs, with"
        " --text_column_names."
    )


def tokenize_texts(
    rows: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, list[Any]]:
    """Tokenize a batch of texts or pairs; if one is too long, the end of its longer text is cut. Keep `label`."""
    features = dict(tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=max_length))
    return {**features, "label": rows["label"]} if "label" in rows else features


def number_labels(rows: Dataset, labels: Labels) -> Dataset:
    """Convert the column `label` to indices of classes, lists with 0.0 or 1.0 per class, or scores; drop `place`.

    If a row has no label, the whole column is dropped. A label that is not one of `labels` is a `ValueError`.
    """
    own, column = labels_of(rows), rows["label"][:]
    bare = rows.remove_columns(["label", PLACE])
    if own is None or any(label is None for label in column):
        return bare
    numbers = {name: number for number, name in enumerate(labels.names)}
    result: list[Any] = []
    several = own.problem_type == MULTI_LABEL
    for number, label in enumerate(column):
        if own.problem_type != REGRESSION:
            label = [own.names[i] for i in label] if several else own.names[label]
        try:
            if labels.problem_type == REGRESSION:  # all scores of a split may be whole numbers, which are classes
                result.append(_number(label))
            elif own.problem_type != labels.problem_type or not numbers.keys() >= {*(label if several else [label])}:
                raise ValueError(f"the label {label!r} is not {labels}: correct it, or add training rows with it.")
            else:
                result.append([float(name in label) for name in labels.names] if several else numbers[label])
        except ValueError as error:
            raise ValueError(f"{rows[number][PLACE]}: {error}") from None
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
