"""Intervals of scores over the rows of a split: how much they would differ for other rows of the same kind."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

INTERVALS = "intervals"
"""Ending of the name of the metric with the intervals of a split."""

GROUPS = 20
"""Number of groups of rows that are left out in turn."""

MOST_ROWS = 5_000
"""Number of rows above which there are no intervals: they would be narrow, and take long."""


def intervals_of_rows(
    score: Callable[[Any, Any], Mapping[str, float]], predictions: Sequence[Any], references: Sequence[Any]
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each score over rows, from the scores without each group of rows.

    The groups are drawn, always the same ones. A score that no group changes has no interval.

    Args:
        score: Function of predictions and references that returns scores by name.
        predictions: Predictions for all rows.
        references: References of all rows.

    Source: the delete-a-group jackknife (Kott 2001); the ends are those of a t-test.

    Example:
        >>> accuracy = lambda predicted, true: {"accuracy": float(np.mean(np.equal(predicted, true)))}
        >>> ends = intervals_of_rows(accuracy, [1] * 80 + [0] * 20, [1] * 100)["accuracy"]
        >>> [round(end, 2) for end in ends]
        [0.72, 0.88]
    """
    count = len(references)
    if not 1 < count <= MOST_ROWS:
        return {}
    groups = np.array_split(np.random.default_rng(0).permutation(count), min(GROUPS, count))
    without = []
    for group in groups:
        rows = np.delete(np.arange(count), group)
        without.append(score(_chosen(predictions, rows), _chosen(references, rows)))
    intervals = {}
    for name, value in score(predictions, references).items():
        values = [scores[name] for scores in without if name in scores]
        error = math.sqrt((len(groups) - 1) * statistics.pvariance(values)) if len(values) == len(groups) else 0.0
        if error > 0 and math.isfinite(error):
            half = error * float(stdtrit(len(groups) - 1, 0.975))
            intervals[name] = (value - half, value + half)
    return intervals


def _chosen(values: Any, rows: np.ndarray) -> Any:
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
