"""Scores of predicted classes, sets of classes and numbers (scikit-learn, SciPy), and the metrics of GLUE."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from transformers.utils import logging

from hf_localattn.extras import LazyExtra

logger = logging.get_logger(__name__)

metrics = LazyExtra("sklearn.metrics", "train", "A score of classes or numbers")
stats = LazyExtra("scipy.stats", "train", "A correlation")

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


def _of_numbers(function: ScoreFunction) -> ScoreFunction:
    """Wrap a score of predicted numbers to return NaN, with a warning, if a prediction is not finite."""

    @functools.wraps(function)
    def score(predictions: np.ndarray, references: np.ndarray) -> float:
        if np.isfinite(predictions).all():
            return function(predictions, references)
        logger.warning_once(
            "Some predictions are not finite, so their scores are NaN: the training has diverged. Try a smaller"
            " learning rate."
        )
        return math.nan

    return score


def _correlation(name: str) -> ScoreFunction:
    """Wrap a correlation of SciPy to return 0 if it is undefined: fewer than two numbers, or all numbers equal."""

    @_of_numbers
    def score(predictions: np.ndarray, references: np.ndarray) -> float:
        if np.ptp(predictions) == 0 or np.ptp(references) == 0:
            return 0.0
        return float(getattr(stats, name)(predictions, references)[0])

    return score


def _f1(average: str) -> ScoreFunction:
    def score(predictions: np.ndarray, references: np.ndarray) -> float:
        return float(metrics.f1_score(references, predictions, average=average, zero_division=0))

    return score


def _accuracy(predictions: np.ndarray, references: np.ndarray) -> float:
    return float(metrics.accuracy_score(references, predictions))


def _matthews_correlation(predictions: np.ndarray, references: np.ndarray) -> float:
    return float(metrics.matthews_corrcoef(references, predictions))


@_of_numbers
def _mean_squared_error(predictions: np.ndarray, references: np.ndarray) -> float:
    return float(metrics.mean_squared_error(references, predictions))


@_of_numbers
def _root_mean_squared_error(predictions: np.ndarray, references: np.ndarray) -> float:
    return float(metrics.root_mean_squared_error(references, predictions))


SCORES: dict[str, ScoreFunction] = {
    "accuracy": _accuracy,
    "f1": _f1("binary"),
    "macro_f1": _f1("macro"),
    "micro_f1": _f1("micro"),
    "subset_accuracy": _accuracy,
    "matthews_correlation": _matthews_correlation,
    "pearson": _correlation("pearsonr"),
    "spearmanr": _correlation("spearmanr"),
    "mse": _mean_squared_error,
    "rmse": _root_mean_squared_error,
}
"""Functions of predictions and references: class indices (N,), 0 or 1 per class (N, classes), or numbers (N,).

`f1` is the F1 of class 1 in binary classification. `micro_f1` counts all classes together; `macro_f1` is the mean over
the classes that occur. `subset_accuracy` is the share of rows with the right set. Scores of numbers are NaN if a
prediction is not finite.
"""

LOWER_IS_BETTER = frozenset({"loss", "mse", "rmse"})


def glue(predictions: Any, references: Any, task: str) -> dict[str, float]:
    """Return the metrics of a GLUE task: accuracy, F1, or Matthews, Pearson and Spearman correlation.

    Args:
        predictions: list of class indices; for "stsb", of scores.
        references: true values, in the same form.
        task: key of `GLUE_METRICS`; the configuration of the `evaluate` module.

    Returns:
        accuracy: for all tasks except "cola" and "stsb", between 0 and 1.
        f1: F1 of class 1, for "mrpc" and "qqp", between 0 and 1.
        matthews_correlation: for "cola", between -1 and 1, 0 if undefined.
        pearson, spearmanr: for "stsb", between -1 and 1, 0 if undefined.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("glue", "mrpc")
        >>> metric.compute(predictions=[1, 1, 0, 0], references=[1, 0, 0, 0])
        {'accuracy': 0.75, 'f1': 0.6666666666666666}
    """
    pair = np.asarray(predictions), np.asarray(references)
    return {name: SCORES[name](*pair) for name in GLUE_METRICS[task]}
