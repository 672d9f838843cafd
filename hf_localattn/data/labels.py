"""Labels of texts: what a value of a file or data set stands for, their numbers, and predictions as labels."""

from __future__ import annotations

import json
import logging
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import ClassLabel, Dataset, List, Value

from hf_localattn.data.rows import (
    PLACE,
    as_list,
    describe_value,
    label_column,
    shorten,
)
from hf_localattn.errors import join_names

logger = logging.getLogger(__name__)

SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Problem types as in transformers: one class, any number of classes, or a number."""

MISSING_TEXTS = frozenset({"", "nan", "NaN", "NAN", "<NA>", "NaT"})
"""Texts of a missing value: a blank one, and what pandas writes for one if a column is converted to text."""

UNCLEAR_TEXTS = frozenset({"none", "null", "na", "n/a"})
"""Texts in lower case that are a class among names, and may be a missing value among numbers."""

_DECIMAL = re.compile(
    r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_LIST_OF_PYTHON = re.compile(r"\[.*\]|\(\s*['\"].*\)|\{\s*['\"].*\}")
_INVISIBLE = "\u200b\ufeff"
_MOST = float(np.finfo(np.float32).max)


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
class LabelFormat:
    """Format of the values in a label column.

    Args:
        problem_type: `SINGLE_LABEL`, `MULTI_LABEL` or `REGRESSION`.
        names: class names in order, of which numbers are indices, *optional*; by default values are the names.
        vector_length: length of lists with a 0 or 1 for each class, *optional*, defaults to 0: lists of classes.
        unlabeled: True if -1 means "no label", *optional*.
        declared: True if the values are indices by a data set's declaration, *optional*. If False, a number that is
            the index of one class and the name of another is an error.
    """

    problem_type: str
    names: tuple[str, ...] | None = None
    vector_length: int = 0
    unlabeled: bool = False
    declared: bool = False

    def read(self, value: Any) -> str | list[str] | float | None:
        """Return the label that a value of a file or data set stands for.

        The rules are a table in docs/text_classification.md.

        Args:
            value: value of a JSON field, text of a cell, or value of a data set's column.

        Returns:
            A class name, a sorted list of class names, a score, or None if the label is missing.

        Raises:
            ValueError: the value does not fit the format, or may mean several things.
        """
        label = parse_value(value)
        if label is None or (self.unlabeled and self._is_minus_one(label)):
            return None
        if isinstance(label, str) and _LIST_OF_PYTHON.fullmatch(label):
            raise ValueError(f'the label {shorten(label)} is no JSON list: write it as ["a", "b"].')
        if self.problem_type == REGRESSION:
            return read_score(label)
        if self.problem_type == MULTI_LABEL:
            return self._read_classes(label)
        return self._read_class(label)

    def _is_minus_one(self, label: Any) -> bool:
        is_name = isinstance(label, str) and label in (self.names or ())
        return str(label) in ("-1", "-1.0") and not is_name

    def _read_classes(self, label: Any) -> list[str]:
        if not isinstance(label, list):
            raise ValueError(f"the label must be a list, as in other rows; found {describe_value(label)}.")
        if self.vector_length:
            return self._read_vector(label)
        names: list[str] = []
        for entry in label:
            if isinstance(entry, float):  # a score has no place in a list, so that 2.0 is class 2
                if not entry.is_integer():
                    raise ValueError(f"the label has {entry}, but its entries are classes; found {shorten(label)}.")
                entry = int(entry)
            name = self._read_class(entry)
            if name in names:
                raise ValueError(
                    f"the label has {name!r} twice; name a class once, or give every row a list with 0 or 1 for each"
                    " class."
                )
            names.append(name)
        return sorted(names)

    def _read_vector(self, label: list[Any]) -> list[str]:
        if not _is_vector(label, self.vector_length):
            raise ValueError(
                f"the label must be a list of {self.vector_length} numbers 0 or 1, as in other rows; found"
                f" {shorten(label)}."
            )
        names = self.names or vector_names(self.vector_length)
        return sorted(name for name, entry in zip(names, label, strict=True) if entry)

    def _read_class(self, label: Any) -> str:
        if isinstance(label, bool):
            name = str(label).lower()  # as in JSON
        elif isinstance(label, (int, float)):
            name = str(label)
        elif isinstance(label, str) and label.strip():
            name = " ".join(label.split())
        else:
            raise ValueError(f"the label must be a name or a whole number; found {describe_value(label)}.")
        if self.names is not None:
            return self._find_name(name, is_number=isinstance(label, (int, float)) and not isinstance(label, bool))
        if _DECIMAL_COMMA.fullmatch(name):
            raise ValueError(
                f"the label {name!r} is not one number or name; write {name.replace(',', '.')} for a score, or"
                f" [{name.replace(',', ', ')}] for two classes."
            )
        return name

    def _find_name(self, name: str, is_number: bool) -> str:
        names = self.names or ()
        if name in names and not is_number:
            return name
        index = int(float(name)) if _WHOLE.fullmatch(name) else -1
        if not 0 <= index < len(names):
            known = f"{join_names(names, 20)}; or 0 to {len(names) - 1}"
            raise ValueError(f"the label {name if is_number else shorten(name)} is outside the label set ({known}).")
        if name in names and names[index] != name and not self.declared:
            raise ValueError(
                f"the label {name} is the name of one class and the index of another; write it as a text."
            )
        return names[index]


def parse_value(value: Any) -> Any:
    """Return the value of a field or a cell: None if it is missing, a list if it is the text of a JSON list.

    Blanks around and between words of a text are single spaces.
    """
    if isinstance(value, str):
        text = " ".join(value.split())
        return None if text in MISSING_TEXTS else as_list(text)
    is_nan = isinstance(value, float) and math.isnan(value)
    return None if is_nan else value


def read_score(label: Any) -> float:
    """Convert a value to a finite number, of 32 bits at most."""
    is_text = isinstance(label, str) and not (_WHOLE.fullmatch(label) or _DECIMAL.fullmatch(label))
    try:
        score = math.nan if is_text or isinstance(label, bool) else float(label)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not abs(score) <= _MOST:
        problem = f"the label {shorten(label)} is not a number, but the labels are scores"
        raise ValueError(f"{problem}: correct it, or pass --do_regression false if labels are names.")
    return score


def vector_names(length: int) -> tuple[str, ...]:
    """Return the names of the classes of 0/1 vectors without names: "0" and so on."""
    return tuple(map(str, range(length)))


def infer_format(values: Iterable[Any]) -> tuple[str, int | None]:
    """Return the problem type of the values of a column and the length of 0/1 vectors among them.

    Lists are sets of classes. If there are two or more entries in each, as many in all, and all are the number 0 or 1,
    they are vectors. Without lists, numbers with a decimal point are scores, and all other labels are classes.
    A warning tells if scores may be classes.

    Returns:
        The problem type; and the length of vectors, 0 if lists are not vectors, None if there are no lists.
    """
    problem_type = SINGLE_LABEL
    texts, lists = set[str](), list[list[Any]]()
    seen = set[str]()
    for value in values:
        if isinstance(value, str):
            if value in seen:
                continue
            seen.add(value)
        label = parse_value(value)
        if isinstance(label, list):
            lists.append(label)
        elif label is not None:
            is_decimal = isinstance(label, str) and _DECIMAL.fullmatch(label)
            if isinstance(label, float) or is_decimal:
                problem_type = REGRESSION
            texts.add(str(label))
    if lists:
        length = len(lists[0])
        are_vectors = length > 1 and all(_is_vector(label, length) for label in lists)
        return MULTI_LABEL, length if are_vectors else 0
    if problem_type == REGRESSION and len(texts) <= 20 and all(map(_WHOLE.fullmatch, texts)):
        # pandas writes whole numbers with ".0" if the column has a missing value
        logger.warning(
            "The labels are whole numbers with a decimal point (%s) and are taken for scores: pass --do_regression"
            " false if they are classes, or true if they are scores.",
            ", ".join(sorted(texts, key=float)),
        )
    return problem_type, None


def _is_vector(label: list[Any], length: int) -> bool:
    return len(label) == length and all(isinstance(entry, (int, float)) and entry in (0, 1) for entry in label)


def find_unclear_name(names: Sequence[str]) -> tuple[str, str] | None:
    """Return a name that may be another spelling of another one, or no name at all, and why; None if all are clear.

    Two names are spellings of the same class if they are the same whole number or truth value, or differ only by
    quotes or invisible characters.
    """
    spellings: dict[Any, str] = {}
    for name in names:
        bare = unicodedata.normalize("NFC", name.strip(f"\"'{_INVISIBLE}"))
        spelling: Any = bare
        if bare.casefold() in ("true", "false"):
            spelling = int(bare.casefold() == "true")
        elif _WHOLE.fullmatch(bare):
            spelling = int(bare.partition(".")[0])
        other = spellings.setdefault(spelling, name)
        if other != name:
            return name, f"is another spelling of {other!r}; use one of them"
    unclear = [name for name in names if name.casefold() in UNCLEAR_TEXTS]
    others = [name for name in names if name not in unclear]
    if unclear and others and all(map(_WHOLE.fullmatch, others)):
        return unclear[0], "may be a class or a missing value; leave its cell empty, or rename the class"
    return None


def labels_of(rows: Dataset) -> Labels | None:
    """Return the label set from the type of the column `label`; None if no row has a label.

    A set of classes has no names if all rows have an empty list.
    """
    feature = rows.features["label"]
    if isinstance(feature, List):
        return Labels(MULTI_LABEL, tuple(getattr(feature.feature, "names", ())))
    if isinstance(feature, ClassLabel):
        return Labels(SINGLE_LABEL, tuple(feature.names))
    return Labels(REGRESSION) if feature == Value("float32") else None


def number_labels(rows: Dataset, labels: Labels, *, may_be_missing: bool = False) -> Dataset:
    """Convert the column `label` to indices of classes, lists with 0.0 or 1.0 per class, or scores; drop `place`.

    If some rows have no label, the column is named `KNOWN_LABEL`, and has None there. If no row has one, it is
    dropped.

    Args:
        rows: rows of `load_texts`.
        labels: labels of the model.
        may_be_missing: True if a class "-1" that the model does not have means "no label".

    Raises:
        ValueError: a label is not one of `labels`.
    """
    of_rows = labels_of(rows)
    bare = rows.remove_columns(["label", PLACE])
    if of_rows is None:
        return bare
    indices = {name: index for index, name in enumerate(labels.names)}
    missing = "-1" if may_be_missing and "-1" not in indices else None
    targets: list[Any] = []
    for row, label in enumerate(rows["label"][:]):
        if label is not None and of_rows.problem_type == SINGLE_LABEL:
            label = of_rows.names[label]
        elif label is not None and of_rows.problem_type == MULTI_LABEL:
            label = [of_rows.names[index] for index in label]
        is_missing = label is None or (label == missing and labels.problem_type != REGRESSION)
        try:
            targets.append(None if is_missing else _target(label, of_rows, labels, indices))
        except ValueError as error:
            raise ValueError(f"{rows[row][PLACE]}: {error}") from None
    column = label_column(targets)
    if column is None:
        return bare
    features = {SINGLE_LABEL: Value("int64"), MULTI_LABEL: List(Value("float32")), REGRESSION: Value("float32")}
    return bare.add_column(column, targets, feature=features[labels.problem_type])


def _target(label: Any, of_rows: Labels, labels: Labels, indices: dict[str, int]) -> Any:
    if labels.problem_type == REGRESSION:  # all scores of a split may be whole numbers, which are classes
        return read_score(label)
    classes = label if isinstance(label, list) else [label]
    if of_rows.problem_type != labels.problem_type or not indices.keys() >= {*classes}:
        raise ValueError(f"the label {label!r} is not {labels}: correct it, or add training rows with it.")
    if labels.problem_type == SINGLE_LABEL:
        return indices[label]
    return [float(name in label) for name in labels.names]


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
        return [labels.names[index] for index in predictions]
    texts = []
    for row in predictions:
        names = [name for name, is_chosen in zip(labels.names, row, strict=True) if is_chosen]
        texts.append(json.dumps(names, ensure_ascii=False))
    return texts
