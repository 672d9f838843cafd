"""Number of training rows at which a baseline has the score of another model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hf_localattn.studies.statistics import compare_paired

POINTS = 200
"""Number of sizes between the smallest and the largest one that are tested for the interval."""


@dataclass(frozen=True)
class MatchingSize:
    """Number of training rows, with its 95 % interval.

    Attributes:
        size: the number; 0 below the smallest measured size, infinity above the largest one.
        interval: ends of the interval; 0 or infinity if an end is outside the measured sizes.
        pairs: number of seeds.
    """

    size: float
    interval: tuple[float, float]
    pairs: int


def matching_size(own: Mapping[int, float], baseline: Mapping[int, Mapping[int, float]]) -> MatchingSize | None:
    """Return the number of training rows at which the baseline has the scores of another model.

    The curve of a seed is linear in the logarithm of the size. The interval has all sizes at which the scores do not
    differ significantly (`compare_paired`), so that it is as reliable as this test, also for few seeds. It covers the
    variation between seeds, not other test examples.

    Args:
        own: scores of the other model by seed.
        baseline: scores of the baseline by size and seed.

    Returns:
        The number. None if fewer than two sizes share a seed with `own`.

    Example:
        >>> found = matching_size({0: 31.0, 1: 33.0}, {100: {0: 20.0, 1: 22.2}, 1000: {0: 40.0, 1: 42.2}})
        >>> round(found.size), [round(end) for end in found.interval]
        (351, [304, 406])
    """
    known = {size: scores for size, scores in sorted(baseline.items()) if own.keys() & scores.keys()}
    seeds = sorted(set(own).intersection(*known.values())) if known else []
    if len(known) < 2 or not seeds:
        return None
    steps = np.log(list(known))
    curves = np.array([[scores[seed] for scores in known.values()] for seed in seeds])
    target = np.array([own[seed] for seed in seeds])
    matching = _crossing(steps, target.mean() - curves.mean(axis=0))
    places = np.unique([*np.linspace(steps[0], steps[-1], POINTS), *steps, np.clip(matching, steps[0], steps[-1])])
    differences = target[:, None] - [np.interp(places, steps, curve) for curve in curves]
    found = [compare_paired(column, [0.0] * len(seeds)).interval for column in differences.T.tolist()]
    equal = [place for place, ends in zip(places, found, strict=True) if ends is None or ends[0] <= 0 <= ends[1]]
    if equal:
        low = equal[0] if equal[0] > steps[0] else -math.inf
        high = equal[-1] if equal[-1] < steps[-1] else math.inf
    else:  # the difference has the same sign at all sizes
        low, high = (steps[-1], math.inf) if matching > steps[-1] else (-math.inf, steps[0])
    return MatchingSize(math.exp(matching), (math.exp(low), math.exp(high)), len(seeds))


def _crossing(places: np.ndarray, differences: np.ndarray) -> float:
    """Return the first place with the difference 0; infinite if it is before the first or after the last place."""
    if differences[0] < 0:
        return -math.inf
    if differences.min() > 0:
        return math.inf
    last = int(np.argmax(differences <= 0))
    return float(np.interp(0.0, differences[[last, max(last - 1, 0)]], places[[last, max(last - 1, 0)]]))
