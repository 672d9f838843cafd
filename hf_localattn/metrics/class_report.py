"""Report of a classification by class: precision, recall, F1, support, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import metrics


def class_report(predictions: np.ndarray, references: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return the scores of scikit-learn's `classification_report` by class.

    Args:
        predictions: Class indices (N,), or 0 or 1 per class (N, classes).
        references: True classes, in the same form.
        names: Names of all classes in order.

    Returns:
        "classes": scores by name. "confusion_matrix", only for class indices: rows of true classes, with columns of
        predicted ones.
    """
    labels = list(range(len(names)))
    scores = metrics.classification_report(references, predictions, labels=labels, output_dict=True, zero_division=0)
    classes = {}
    for label, name in enumerate(names):
        of_class = scores[str(label)]
        classes[name] = of_class | {"support": int(of_class["support"])}
    report: dict[str, Any] = {"classes": classes}
    if predictions.ndim == 1:
        matrix = metrics.confusion_matrix(references, predictions, labels=labels)
        report["confusion_matrix"] = matrix.tolist()
    return report
