"""Significance of the difference between two results: intervals, paired tests, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_localattn.extras import LazyExtra

stats = LazyExtra("scipy.stats", "train", "A test of significance")

LEVEL = 0.95
"""Probability that an interval contains the difference."""

SAME = 1e-9
"""Differences that vary less than this, relative to their size, are equal except for rounding."""


@dataclass(frozen=True)
class Comparison:
    """Difference between the runs of two results with the same seeds or folds. Everything unknown is None.

    Attributes:
        difference: mean difference over the pairs of runs.
        interval: 95 % interval of the difference.
        p_value: two-sided p-value of a paired t-test.
        pairs: number of runs that both results have.
        remark: reason for a missing or limited comparison.
    """

    difference: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    pairs: int = 0
    remark: str | None = None


def compare_runs(
    own: Mapping[int, float],
    other: Mapping[int, float],
    own_data: Mapping[int, Mapping[str, Any]] | None = None,
    other_data: Mapping[int, Mapping[str, Any]] | None = None,
    *,
    folds: int | None = None,
) -> Comparison:
    """Compare two results in the runs that both have. Runs are not compared if their data differ or a score is NaN.

    Interval and p-value are those of a paired t-test. The training sets of folds overlap, so that the variance of
    their differences is corrected (Nadeau and Bengio 2003): the factor 1/n becomes 1/n + 1/(folds - 1).

    Args:
        own: scores of the first result, by number of the run.
        other: scores of the second result.
        own_data: digest of each split, by number of the run of the first result, *optional*.
        other_data: the same of the second result, *optional*.
        folds: number of folds, if the runs are folds of a cross-validation, *optional*.

    Example:
        >>> found = compare_runs({0: 81.0, 1: 83.0, 2: 82.0}, {0: 79.5, 1: 80.5, 2: 81.0})
        >>> round(found.difference, 2), [round(end, 2) for end in found.interval], round(found.p_value, 3)
        (1.67, [-0.23, 3.56], 0.063)
    """
    common = sorted(own.keys() & other.keys())
    if not common:
        return Comparison(remark="no run of both has the same seed or fold: not compared" if own and other else None)
    differences = np.array([own[number] - other[number] for number in common], dtype=float)
    if not np.isfinite(differences).all():
        return Comparison(remark="a score is NaN: not compared")
    data = [((own_data or {}).get(number, {}), (other_data or {}).get(number, {})) for number in common]
    if splits := sorted({split for first, second in data for split in differing(first, second)}):
        return Comparison(remark=f"the runs have other data ({', '.join(splits)}): not compared")
    mean, pairs = float(differences.mean()), len(common)
    remarks = []
    if unpaired := sorted(own.keys() ^ other.keys()):
        remarks.append(f"run {', '.join(map(str, unpaired))} of only one of both is left out of the difference")
    if pairs == 1:
        remarks.append("one run: no interval")
    elif differences.std(ddof=1) <= SAME * max(1.0, float(np.abs(differences).max())):
        remarks.append("all differences are equal: no interval")
    remark = "; ".join(remarks) or None
    if pairs == 1 or "no interval" in (remark or ""):
        return Comparison(mean, None, None, pairs, remark)
    overlap = 0.0 if folds is None else 1 / (folds - 1)
    error = math.sqrt(float(differences.var(ddof=1)) * (1 / pairs + overlap))
    low, high = stats.t.interval(LEVEL, pairs - 1, loc=mean, scale=error)
    p_value = 2 * float(stats.t.sf(abs(mean) / error, pairs - 1))
    return Comparison(mean, (float(low), float(high)), p_value, pairs, remark)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the splits that both runs have, but with other rows."""
    return [split for split, rows in first.items() if split in second and second[split] != rows]


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


def format_interval(interval: tuple[float, float] | None) -> str:
    """Format an interval for a table."""
    return "-" if interval is None else f"[{interval[0]:+.2f}, {interval[1]:+.2f}]"


def format_p(value: float | None) -> str:
    """Format a p-value for a table."""
    return "-" if value is None else f"{value:.2g}"
