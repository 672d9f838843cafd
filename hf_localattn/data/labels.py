"""Labels of texts: what a value of a file or data set stands for, their numbers, and predictions as labels."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import ClassLabel, Dataset, List, Value
from scipy import special

from hf_localattn.data.class_names import WHOLE
from hf_localattn.data.rows import PLACE, as_list, describe_value, label_column
from hf_localattn.errors import join_names, shorten

logger = logging.getLogger(__name__)


# Problem types as in transformers: one class, any number of classes, or a number.
SINGLE_LABEL = "single_label_classification"
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"

MISSING_TEXTS = frozenset({"", "nan", "NaN", "NAN", "<NA>", "NaT"})
"""Texts of a missing value: a blank one, and those of pandas for a column converted to text."""

_DECIMAL = re.compile(
    r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_LIST_OF_PYTHON = re.compile(r"\[.*\]|\(\s*['\"].*\)|\{\s*['\"].*\}", re.DOTALL)
_BREAK = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")
"""A line break or control character."""

_LARGEST = float(np.finfo(np.float32).max)
_NUMBER = re.compile(r"-?[0-9]{1,18}")


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """Sort labels for numbering: whole numbers by value, then other labels by name."""
    return sorted(labels, key=lambda name: (0, int(name), name) if _NUMBER.fullmatch(name) else (1, 0, name))


@dataclass(frozen=True)
class Labels:
    """Problem type of a model or data set, and its class names in order (none for scores)."""

    problem_type: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problem_type == REGRESSION:
            return "a score"
        quantity = "any number of" if self.problem_type == MULTI_LABEL else "one of"
        return f"{quantity} {len(self.names)} classes ({join_names(list(map(shorten, self.names)), 20)})"

    @property
    def num_labels(self) -> int:
        """Number of logits."""
        return 1 if self.problem_type == REGRESSION else len(self.names)


@dataclass(frozen=True)
class LabelFormat:
    """Format of the values in a label column.

    Args:
        problem_type: `SINGLE_LABEL`, `MULTI_LABEL` or `REGRESSION`.
        names: Class names in order, of which numbers are indices.
        vector_length: Length of lists with a 0 or 1 for each of the names; 0 for lists of classes.
        unlabeled: True if -1 means "no label".
        declared: True if a data set declares that values are indices. If False, a number that is the index of one
            class and the name of another is an error.
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
            value: Value of a JSON field, text of a cell, or value of a data set's column.

        Returns:
            A class name, a sorted list of class names, a score, or None if the label is missing.

        Raises:
            ValueError: The value does not fit the format, or may mean several things.
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
            if isinstance(entry, float):  # lists hold no scores, so that 2.0 is class 2
                if not entry.is_integer():
                    raise ValueError(f"the label has {entry}, but its entries are classes; found {shorten(label)}.")
                entry = int(entry)
            name = self._read_class(entry)
            if name in names:
                raise ValueError(
                    f"the label has {name!r} twice; name a class once, or give all rows a 0 or 1 for each class."
                )
            names.append(name)
        return sorted(names)

    def _read_vector(self, label: list[Any]) -> list[str]:
        if not _is_vector(label, self.vector_length):
            raise ValueError(
                f"the label must be a list of {self.vector_length} numbers, a 0 or 1 for each class; found"
                f" {shorten(label)}."
            )
        return sorted(name for name, entry in zip(self.names or (), label, strict=True) if entry)

    def _read_class(self, label: Any) -> str:
        if isinstance(label, bool):
            label = str(label).lower()  # as in JSON
        if isinstance(label, str) and label.strip():
            if _BREAK.search(label.strip()):
                raise ValueError(
                    f"the label {shorten(label)} has a line break or a control character: remove it, or write two"
                    ' classes as ["a", "b"].'
                )
            name = " ".join(label.split())
        elif isinstance(label, (int, float)):
            name = str(label)
        else:
            raise ValueError(f"the label must be a name or a whole number; found {describe_value(label)}.")
        if self.names is not None:
            return self._find_name(name, is_text=isinstance(label, str))
        if _DECIMAL_COMMA.fullmatch(name):
            raise ValueError(
                f"the label {name!r} is not one number or name; write {name.replace(',', '.')} for a score, or"
                f" [{name.replace(',', ', ')}] for two classes."
            )
        return name

    def _find_name(self, name: str, is_text: bool) -> str:
        names = self.names or ()
        if name in names and is_text:
            return name
        index = int(float(name)) if WHOLE.fullmatch(name) else -1
        if not 0 <= index < len(names):
            classes = f"{join_names(names, 20)}; or 0 to {len(names) - 1}"
            label = shorten(name) if is_text else name
            raise ValueError(f"the label {label} is outside the label set ({classes}).")
        if name in names and names[index] != name and not self.declared:
            raise ValueError(f"the label {name} is the name of one class and the index of another; write a text.")
        return names[index]


def parse_value(value: Any) -> Any:
    """Return the value of a field or a cell: None if it is missing, a list if it is the text of a JSON list.

    Blanks around a text are no part of it.
    """
    if isinstance(value, str):
        text = value.strip()
        return None if text in MISSING_TEXTS else as_list(text)
    is_nan = isinstance(value, float) and math.isnan(value)
    return None if is_nan else value


def read_score(label: Any) -> float:
    """Convert a value to a finite number, of 32 bits at most."""
    is_name = isinstance(label, str) and not (WHOLE.fullmatch(label) or _DECIMAL.fullmatch(label))
    score = math.nan
    if not is_name and not isinstance(label, bool):
        with suppress(TypeError, ValueError):
            try:
                score = float(label)
            except OverflowError:  # an integer
                score = math.inf
    if abs(score) > _LARGEST:
        raise ValueError(f"the label {shorten(label)} is too large for 32 bits: correct it, or divide all scores.")
    if math.isnan(score):
        raise ValueError(
            f"the label {shorten(label)} is not a number, but the labels are scores: correct it, or pass"
            " --do_regression false if labels are names."
        )
    return score


def infer_format(values: Iterable[Any]) -> tuple[str, int | None]:
    """Infer the problem type of the values of a column, and the length of 0/1 vectors among them.

    Lists are sets of classes. They are vectors if all have the same length, two at least, and only the numbers 0 and
    1. Without lists, numbers with a decimal point are scores, and all other labels are classes. A warning tells if
    scores may be classes.

    Returns:
        The problem type; and the length of vectors, 0 if lists are not vectors, None if there are no lists.
    """
    problem_type = SINGLE_LABEL
    lists: list[list[Any]] = []
    texts = set[str]()
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
    if problem_type == REGRESSION and len(texts) <= 20 and all(map(WHOLE.fullmatch, texts)):
        # pandas writes whole numbers with ".0" if the column has a missing value
        logger.warning(
            "The labels are whole numbers with a decimal point (%s) and are taken for scores: pass --do_regression"
            " false if they are classes, or true if they are scores.",
            ", ".join(sorted(texts, key=float)),
        )
    return problem_type, None


def _is_vector(label: list[Any], length: int) -> bool:
    are_bits = (isinstance(entry, (int, float)) and entry in (0, 1) for entry in label)
    return len(label) == length and all(are_bits)


def labels_of(rows: Dataset) -> Labels | None:
    """Return the label set by the type of the column `label`; None if no row has a label."""
    feature = rows.features["label"]
    if isinstance(feature, List):
        names = getattr(feature.feature, "names", ())  # none if all rows have an empty list
        return Labels(MULTI_LABEL, tuple(names))
    if isinstance(feature, ClassLabel):
        return Labels(SINGLE_LABEL, tuple(feature.names))
    return Labels(REGRESSION) if feature == Value("float32") else None


def number_labels(rows: Dataset, labels: Labels, *, may_be_missing: bool = False) -> Dataset:
    """Convert the column `label` to indices of classes, lists with 0.0 or 1.0 per class, or scores; drop `place`.

    If some rows have no label, the column is named `KNOWN_LABEL`, and has None there. If no row has one, it is
    dropped.

    Args:
        rows: Rows of `load_texts`.
        labels: Labels of the model.
        may_be_missing: True if a class "-1" that the model does not have means "no label".

    Raises:
        ValueError: A label is not one of `labels`.
    """
    of_rows = labels_of(rows)
    unlabeled = rows.remove_columns(["label", PLACE])
    if of_rows is None:
        return unlabeled
    indices = {name: index for index, name in enumerate(labels.names)}
    is_minus_one_missing = may_be_missing and "-1" not in indices and labels.problem_type != REGRESSION
    targets: list[Any] = []
    for row, label in enumerate(rows["label"][:]):
        if label is not None and of_rows.problem_type == SINGLE_LABEL:
            label = of_rows.names[label]
        elif label is not None and of_rows.problem_type == MULTI_LABEL:
            label = [of_rows.names[index] for index in label]
        if label is None or (is_minus_one_missing and label == "-1"):
            targets.append(None)
            continue
        try:
            targets.append(_target(label, of_rows, labels, indices))
        except ValueError as error:
            raise ValueError(f"{rows[row][PLACE]}: {error}") from None
    column = label_column(targets)
    if column is None:
        return unlabeled
    features = {
        SINGLE_LABEL: Value("int64"),
        MULTI_LABEL: List(Value("float32")),
        REGRESSION: Value("float32"),
    }
    return unlabeled.add_column(column, targets, feature=features[labels.problem_type])


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


def probabilities_from_logits(logits: np.ndarray, problem_type: str) -> np.ndarray:
    """Convert logits (N, labels) to probabilities, which sum to 1 unless labels are sets."""
    exact = logits.astype(np.float64)
    shares: np.ndarray = special.expit(exact) if problem_type == MULTI_LABEL else special.softmax(exact, -1)
    return shares


def format_predictions(logits: Any, labels: Labels) -> list[str]:
    """Return the prediction for each row as text: a class name, a JSON list of names, or a score."""
    predictions = predictions_from_logits(logits, labels.problem_type)
    if labels.problem_type == REGRESSION:
        return [f"{score:.3f}" for score in predictions]
    if labels.problem_type == SINGLE_LABEL:
        return [labels.names[index] for index in predictions]
    names = np.array(labels.names, dtype=object)
    return [json.dumps(names[row == 1].tolist(), ensure_ascii=False) for row in predictions]
