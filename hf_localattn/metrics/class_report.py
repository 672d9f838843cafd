"""Report of a classification by class: precision, recall, F1, support, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import metrics

SCORES = ("precision", "recall", "f1-score", "support")


def class_report(predictions: np.ndarray, references: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return the scores by class, by the names of scikit-learn's `classification_report`.

    Args:
        predictions: Class indices (N,), or 0 or 1 per class (N, classes).
        references: True classes, in the same form.
        names: Names of all classes in order.

    Returns:
        "classes": scores by name. "confusion_matrix", only for class indices: rows of true classes, with columns of
        predicted ones.
    """
    labels = list(range(len(names)))
    scores = metrics.precision_recall_fscore_support(references, predictions, labels=labels, zero_division=0)
    rows = zip(*(column.tolist() for column in scores), strict=True)
    report: dict[str, Any] = {
        "classes": {name: dict(zip(SCORES, row, strict=True)) for name, row in zip(names, rows, strict=True)}
    }
    if predictions.ndim == 1:
        matrix = metrics.confusion_matrix(references, predictions, labels=labels)
        report["confusion_matrix"] = matrix.tolist()
    return report
