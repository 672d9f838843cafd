"""Scores of predicted classes, sets of classes and numbers (scikit-learn, SciPy), and the metrics of GLUE."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics
from transformers.utils import logging

logger = logging.get_logger(__name__)


ScoreFunction = Callable[[np.ndarray, np.ndarray], float]

GLUE_METRICS: dict[str, tuple[str, ...]] = {
    "cola": ("matthews_correlation",),
    "mnli": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "qnli": ("accuracy",),
    "qqp": ("accuracy", "f1"),
    "rte": ("accuracy",),
    "sst2": ("accuracy",),
    "stsb": ("pearson", "spearmanr"),
    "wnli": ("accuracy",),
}
"""Metrics of each GLUE task (Wang et al. 2019), as keys of `SCORES`."""


def _of_classes(name: str, **options: Any) -> ScoreFunction:
    return lambda predictions, references: float(getattr(metrics, name)(references, predictions, **options))


def _of_numbers(name: str) -> ScoreFunction:
    """Return a score of numbers, an error or a correlation (0 if undefined); NaN if a prediction is not finite."""

    def score(predictions: np.ndarray, references: np.ndarray) -> float:
        if not np.isfinite(predictions).all():
            logger.warning_once(
                "Some predictions are not finite: the training has diverged. Try a smaller learning rate."
            )
            return math.nan
        if name.endswith("error"):
            return float(getattr(metrics, name)(references, predictions))
        if np.ptp(predictions) == 0 or np.ptp(references) == 0:  # fewer than two numbers, or all numbers equal
            return 0.0
        return float(getattr(stats, name)(predictions, references)[0])

    return score


SCORES: dict[str, ScoreFunction] = {
    "accuracy": _of_classes("accuracy_score"),
    "f1": _of_classes("f1_score", average="binary", zero_division=0),
    "macro_f1": _of_classes("f1_score", average="macro", zero_division=0),
    "micro_f1": _of_classes("f1_score", average="micro", zero_division=0),
    "subset_accuracy": _of_classes("accuracy_score"),
    "matthews_correlation": _of_classes("matthews_corrcoef"),
    "pearson": _of_numbers("pearsonr"),
    "spearmanr": _of_numbers("spearmanr"),
    "mse": _of_numbers("mean_squared_error"),
    "rmse": _of_numbers("root_mean_squared_error"),
}
"""Functions of predictions and references: class indices (N,), 0 or 1 per class (N, classes), or numbers (N,).

`f1` is the F1 of class 1 in binary classification. `micro_f1` counts all classes together; `macro_f1` is the mean over
the classes that occur. `subset_accuracy` is the share of rows with the right set.
"""

LOWER_IS_BETTER = frozenset({"loss", "mse", "rmse", "false_positive_rate"})


def glue(predictions: Any, references: Any, task: str) -> dict[str, float]:
    """Return the metrics of a GLUE task: accuracy, F1, or Matthews, Pearson and Spearman correlation.

    Args:
        predictions: List of class indices; for "stsb", of scores.
        references: True values, in the same form.
        task: Key of `GLUE_METRICS`; the configuration of the `evaluate` module.

    Returns:
        accuracy: For all tasks except "cola" and "stsb", between 0 and 1.
        f1: F1 of class 1, for "mrpc" and "qqp", between 0 and 1.
        matthews_correlation: For "cola", between -1 and 1, 0 if undefined.
        pearson, spearmanr: For "stsb", between -1 and 1, 0 if undefined.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("glue", "mrpc")
        >>> metric.compute(predictions=[1, 1, 0, 0], references=[1, 0, 0, 0])
        {'accuracy': 0.75, 'f1': 0.6666666666666666}
    """
    predicted = np.asarray(predictions)
    true = np.asarray(references)
    return {name: SCORES[name](predicted, true) for name in GLUE_METRICS[task]}
