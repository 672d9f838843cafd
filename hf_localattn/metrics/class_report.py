"""Report of a classification by class: precision, recall, F1, support, and the confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hf_localattn.extras import LazyExtra

metrics = LazyExtra("sklearn.metrics", "train", "A report by class")

CLASSES = "classes"
CONFUSION = "confusion_matrix"


def class_report(predictions: np.ndarray, references: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return the scores of each class, and for single labels the confusion matrix, as JSON values.

    Args:
        predictions: Class indices (N,), or 0 or 1 per class (N, classes).
        references: True classes, in the same form.
        names: Names of all classes in order.

    Returns:
        `CLASSES`: precision, recall, f1 and support by class. `CONFUSION`: numbers of rows by true class and
        predicted class, without zeros; only for single labels.
    """
    scores = metrics.precision_recall_fscore_support(
        references,
        predictions,
        labels=range(len(names)),
        zero_division=0,
    )
    classes = {}
    for name, precision, recall, f1, support in zip(names, *scores, strict=True):
        classes[name] = {
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "support": int(support),
        }
    if predictions.ndim > 1:
        return {CLASSES: classes}
    confusion: dict[str, dict[str, int]] = {name: {} for name in names}
    counts = Counter(zip(references.tolist(), predictions.tolist(), strict=True))
    for (true, predicted), count in sorted(counts.items()):
        confusion[names[true]][names[predicted]] = count
    return {CLASSES: classes, CONFUSION: confusion}
