"""Reductions of the scores of a table over rows, corpora and runs.

Scores are a Series of pandas whose index has several levels. A missing score makes what is reduced over it missing: no
value is the mean, or the best, of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pandas import Series


def mean(scores: Series, levels: Sequence[str]) -> Series:
    """Return means over levels of the index."""
    return _grouped(scores, levels).agg(lambda part: part.mean(skipna=False))


def maximum(scores: Series, levels: Sequence[str]) -> Series:
    """Return the largest scores over levels of the index."""
    return _grouped(scores, levels).agg(lambda part: part.max(skipna=False))


def difference_to_best(scores: Series, levels: Sequence[str]) -> Series:
    """Return the difference of each score to the largest over levels of the index, which stay."""
    return scores - _grouped(scores, levels).transform(lambda part: part.max(skipna=False))


def _grouped(scores: Series, levels: Sequence[str]) -> Any:
    return scores.groupby([level for level in scores.index.names if level not in levels], sort=False)


REDUCTIONS = {"mean": mean, "maximum": maximum, "difference_to_best": difference_to_best}
