"""Significance of differences between rows: intervals, paired tests, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hf_localattn.extras import LazyExtra

optimize, special, stats = (
    LazyExtra(f"scipy.{name}", "train", "A test of significance") for name in ("optimize", "special", "stats")
)

LEVEL = 0.05
"""Probability of an error: tests at 5 %, intervals of 95 %."""
SAME = 1e-9
"""Differences that vary less than this, relative to their size, are equal except for rounding."""


@dataclass(frozen=True)
class Estimate:
    """Mean difference of paired scores, with its interval and p-value.

    Attributes:
        difference: mean of the row's scores minus mean of the baseline's.
        interval: 95 % interval of the difference, or None if it cannot be computed.
        p_value: two-sided p-value of the same t statistic, or None.
        pairs: number of pairs of runs.
        examples: number of test examples that the interval also covers; 0 if it covers runs only.
        note: reason for a missing or a limited interval, or None.
    """

    difference: float
    interval: tuple[float, float] | None
    p_value: float | None
    pairs: int
    examples: int = 0
    note: str | None = None


def compare_paired(
    own: Sequence[float], other: Sequence[float], *, overlap: float = 0.0, examples: np.ndarray | None = None
) -> Estimate:
    """Compare the runs of a row with the runs of its baseline that have the same seeds or folds.

    Interval and p-value use Student's t distribution. With scores of examples, the result also holds for other test
    examples. The variance is that of a bootstrap over seeds and examples, in closed form. Its parts for seeds and for
    examples each have a t distribution, and the squares of their half-widths are added (Howe 1974): such an interval
    is never too narrow, even for 3 seeds, and at most slightly too wide.
    `scripts/simulate_statistics.py` measures this.

    Args:
        own: scores of the row (pairs,).
        other: scores of the baseline (pairs,), in the same order.
        overlap: size of a test set divided by the size of its training set, for the folds of a cross-validation: the
            training sets overlap, and the variance is corrected (Nadeau and Bengio 2003). Defaults to 0, for seeds.
        examples: differences of the scores of examples (pairs, examples). Each row must have the mean `own - other` of
            its pair. *Optional*; cannot be combined with `overlap`.

    Raises:
        ValueError: there are no pairs, numbers of scores differ, or a score is NaN or infinite.

    Example:
        >>> found = compare_paired([81.0, 83.0, 82.0], [79.5, 80.5, 81.0])
        >>> round(found.difference, 2), [round(end, 2) for end in found.interval], round(found.p_value, 3)
        (1.67, [-0.23, 3.56], 0.063)
    """
    first, second = _finite(own), _finite(other)
    if len(first) != len(second) or not len(first):
        raise ValueError(f"Pairs of runs are needed; got {len(first)} and {len(second)} scores.")
    differences = first - second
    mean, pairs = float(differences.mean()), len(differences)
    if examples is not None:
        if overlap:
            raise ValueError("Folds have different examples: leave out the examples, or the overlap.")
        count, parts = examples.shape[1], _crossed_variances(_finite(examples))
        note = "one run: the interval covers other examples, but no other seeds" if pairs == 1 else None
    elif pairs == 1:
        return Estimate(mean, None, None, 1, note="one run: no interval")
    else:
        count, parts, note = 0, [(float(differences.var(ddof=1)) * (1 / pairs + overlap), pairs - 1)], None
    if sum(variance for variance, _ in parts) <= (SAME * max(1.0, float(np.abs(differences).max()))) ** 2:
        return Estimate(mean, None, None, pairs, count, "all differences are equal: no interval")
    half = _half_width(parts, LEVEL)
    return Estimate(mean, (mean - half, mean + half), _p_value(mean, parts), pairs, count, note)


Variances = list[tuple[float, int]]
"""Parts of the variance of a mean, each with its degrees of freedom."""


def _half_width(parts: Variances, level: float) -> float:
    return math.sqrt(sum(variance * special.stdtrit(freedom, level / 2) ** 2 for variance, freedom in parts))


def _p_value(mean: float, parts: Variances) -> float:
    """Return the level at which the interval ends at 0."""
    if len(parts) == 1:
        [(variance, freedom)] = parts
        return 2 * float(special.stdtr(freedom, -abs(mean) / math.sqrt(variance)))
    lowest = 1e-12
    if abs(mean) >= _half_width(parts, lowest):
        return lowest
    if mean == 0:
        return 1.0
    return float(optimize.brentq(lambda level: _half_width(parts, level) - abs(mean), lowest, 1.0, xtol=1e-13))


def _finite(values: Sequence[float] | np.ndarray) -> np.ndarray:
    found = np.asarray(values, dtype=float)
    if not np.isfinite(found).all():
        raise ValueError("A score is NaN or infinite: such a run has diverged and cannot be compared.")
    return found


def _crossed_variances(differences: np.ndarray) -> Variances:
    """Return the parts of the variance of the mean of differences (runs, examples): seeds, and examples."""
    runs, examples = differences.shape
    if examples < 2:
        raise ValueError("At least two examples are needed.")
    of_runs, of_examples = differences.mean(axis=1), differences.mean(axis=0)
    error = float(of_examples.var(ddof=1)) / examples
    if runs == 1:
        return [(error, examples - 1)]
    rest = differences - of_runs[:, None] - of_examples + differences.mean()
    # The means of seeds and the means of examples both vary by the interaction, which counts once.
    interaction = float((rest**2).sum()) / ((runs - 1) * (examples - 1)) / (runs * examples)
    return [(float(of_runs.var(ddof=1)) / runs, runs - 1), (max(error - interaction, 0.0), examples - 1)]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for the number of tests (Holm 1979).

    The probability of at least one p-value below 5 % is at most 5 % if no row differs from its baseline, for any
    dependence between the tests. None stays None and is not counted.

    Example:
        >>> holm([0.01, None, 0.04, 0.03])
        [0.03, None, 0.06, 0.06]
    """
    found: list[float | None] = [None] * len(p_values)
    known = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    largest = 0.0
    for rank, (value, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * value))
        found[place] = largest
    return found
