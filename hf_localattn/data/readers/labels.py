"""Labels of texts in all their spellings: one class, several classes, or a score."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import ClassLabel, Dataset, List, Value

from hf_localattn.data.readers.tables import describe_value, shorten

logger = logging.getLogger(__name__)


SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Problem types as transformers names them: one class, any number of classes, or a number."""

_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")

MOST_CLASSES = 20
"""More distinct values than this are treated as scores without a warning."""


@dataclass(frozen=True)
class Labels:
    """Predictions of a model: their problem type, and the names of the classes by number (none for a score)."""

    problem_type: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problem_type == REGRESSION:
            return "a score"
        several = "any number of" if self.problem_type == MULTI_LABEL else "one of"
        return f"{several} {len(self.names)} classes ({listed(self.names)})"

    @property
    def num_labels(self) -> int:
        """Number of logits."""
        return 1 if self.problem_type == REGRESSION else len(self.names)


def infer_problem_type(labels: Iterable[Any]) -> str:
    """Infer the problem type from labels: lists are sets of classes, numbers with a fraction scores, others classes.

    Files of comma-separated values have numbers as text. A warning says if scores may well be classes.
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
        # So do pandas and others write whole numbers of a column in which some are missing.
        logger.warning(
            "The labels are whole numbers with a decimal point (%s), and are taken for scores: pass --do_regression"
            " false if these are classes, or true if they are not.",
            ", ".join(sorted(texts - {""}, key=float)),
        )
    return problem


def read_label(label: Any, problem_type: str, names: Sequence[str] | None = None) -> Any:
    """Turn a label into the name of a class, a list of names, or a number.

    Args:
        label: as it stands in a file or on the Hub. White space in names is evened out.
        problem_type: what it should be.
        names: of the classes, where they are known: the label may then be a class's number too.

    Raises:
        ValueError: it is something else.
    """
    if problem_type == REGRESSION:
        return _number(label)
    if problem_type == MULTI_LABEL:
        if not isinstance(label, list):
            raise ValueError(f"the label must be a list, as in other rows; found {describe_value(label)}.")
        return sorted({_name(part, names) for part in label})
    return _name(label, names)


def with_class_labels(rows: Dataset, problem_type: str, names: Sequence[str] | None = None) -> Dataset:
    """Give the column `label` the names of the classes as its type; by default those in it, sorted (numbers by size).

    The column is left as it is where labels are scores, or where no row has one.
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
    """Return what the type of the column `label` says; None if it is only text, because no row has a label."""
    kind = rows.features["label"]
    if isinstance(kind, List) and isinstance(kind.feature, ClassLabel):
        return Labels(MULTI_LABEL, tuple(kind.feature.names))
    if isinstance(kind, ClassLabel):
        return Labels(SINGLE_LABEL, tuple(kind.names))
    return Labels(REGRESSION) if kind == Value("float32") else None


def _name(label: Any, names: Sequence[str] | None) -> str:
    if isinstance(label, bool):
        name = str(label).lower()  # as json writes it
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
        f"the label {shorten(label)} is outside the label set ({listed(names)}; or 0 to {len(names) - 1})."
    )


def _number(label: Any) -> float:
    try:
        number = math.nan if isinstance(label, bool) else float(label)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"the label {shorten(label)} is not a number, but the labels are scores, as --do_regression, the task or"
            " labels with a decimal point say; mend it, or pass --do_regression false if the labels are names."
        )
    return number


def _is_whole(name: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", name) is not None


def listed(names: Sequence[str]) -> str:
    """Join the first 20 names by commas."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
