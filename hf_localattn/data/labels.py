"""Labels of texts: their problem type (one class, several classes, or a score) and their parsing."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import ClassLabel, Dataset, List, Value

from hf_localattn.data.rows import describe_value, shorten
from hf_localattn.errors import join_names

logger = logging.getLogger(__name__)


SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Problem types as in transformers: one class, any number of classes, or a number."""

_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")

MOST_CLASSES = 20
"""Labels with more distinct values than this are treated as scores without a warning."""


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


def infer_problem_type(labels: Iterable[Any]) -> str:
    """Infer the problem type of labels.

    Lists are sets of classes, numbers with a decimal point are scores, and all other labels are classes. Numbers may
    be strings, as in .csv files. A warning is logged if scores may be classes.
    """
    problem, texts = SINGLE_LABEL, set()
    for label in labels:
        if isinstance(label, list):
            return MULTI_LABEL
        text = "" if label is None else str(label).strip()
        if isinstance(label, float) or (isinstance(label, str) and _FRACTION.fullmatch(text)):
            problem = REGRESSION
        texts.add(text)
    if problem == REGRESSION and len(texts) <= MOST_CLASSES and all(_WHOLE.fullmatch(text) for text in texts - {""}):
        # pandas writes whole numbers with ".0" if the column has a missing value
        logger.warning(
            "The labels are whole numbers with a decimal point (%s) and are taken for scores: pass --do_regression"
            " false if they are classes, or true if they are scores.",
            ", ".join(sorted(texts - {""}, key=float)),
        )
    return problem


def read_label(label: Any, problem_type: str, names: Sequence[str] | None = None) -> Any:
    """Convert a label to a class name, a sorted list of class names, or a number.

    Args:
        label: value from a file or from the Hub. Runs of white space in names become single spaces.
        problem_type: one of the problem types above.
        names: class names, *optional*. If given, the label may also be the index of a class.

    Raises:
        ValueError: the label does not match the problem type, or is not in `names`.
    """
    if problem_type == REGRESSION:
        return _number(label)
    if problem_type == MULTI_LABEL:
        if not isinstance(label, list):
            raise ValueError(f"the label must be a list, as in other rows; found {describe_value(label)}.")
        return sorted({_name(part, names) for part in label})
    return _name(label, names)


def with_class_labels(rows: Dataset, problem_type: str, names: Sequence[str] | None = None) -> Dataset:
    """Cast the column `label` to `ClassLabel` or a list of `ClassLabel`; keep scores and a column without labels.

    Args:
        rows: rows with class names, as `read_label` returns them.
        problem_type: one of the problem types above.
        names: class names, *optional*, defaults to the sorted names in the column; numbers are sorted by value.
    """
    if problem_type == REGRESSION:
        return rows
    if names is None:
        labels = rows["label"][:]
        found = {name for label in labels if label for name in (label if problem_type == MULTI_LABEL else [label])}
        names = sorted(found, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name))
    if not names:
        return rows
    kind = ClassLabel(names=list(names))
    return rows.cast_column("label", List(kind) if problem_type == MULTI_LABEL else kind)


def labels_of(rows: Dataset) -> Labels | None:
    """Return the label set from the type of the column `label`; None if the column is text: no row has a label."""
    kind = rows.features["label"]
    if isinstance(kind, List) and isinstance(kind.feature, ClassLabel):
        return Labels(MULTI_LABEL, tuple(kind.feature.names))
    if isinstance(kind, ClassLabel):
        return Labels(SINGLE_LABEL, tuple(kind.names))
    return Labels(REGRESSION) if kind == Value("float32") else None


def _name(label: Any, names: Sequence[str] | None) -> str:
    if isinstance(label, bool):
        name = str(label).lower()  # as in JSON
    elif isinstance(label, (int, float)):
        name = str(label)
    elif isinstance(label, str) and label.strip():
        name = " ".join(label.split())
    else:
        raise ValueError(f"the label must be a name or a whole number; found {describe_value(label)}.")
    if names is None or (name in names and isinstance(label, str)):
        return name
    if _is_whole(name) and 0 <= int(name) < len(names):
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
        raise ValueError(
            f"the label {shorten(label)} is not a number, but the labels are scores (by --do_regression, by the task,"
            " or because some have a decimal point); correct it, or pass --do_regression false if labels are names."
        )
    return number


def _is_whole(name: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", name) is not None
