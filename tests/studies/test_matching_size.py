"""Matching sizes of learning curves with known answers, and the coverage of their intervals."""

import math

import numpy as np
import pytest

from hf_localattn.studies.matching_size import matching_size

SIZES = (100, 200, 400)


def curve(seed, shift=0.0):
    """Scores of a baseline that gains 10 with each doubling."""
    return {size: {seed: 10 * math.log2(size / 100) + shift} for size in SIZES}


def merged(*curves):
    return {size: {seed: value for one in curves for seed, value in one[size].items()} for size in SIZES}


def test_a_curve_is_linear_in_the_logarithm():
    own = {0: 4.9, 1: 15.1, 2: 5.0}
    found = matching_size(own, merged(curve(0), curve(1, 10.0), curve(2)))
    assert found.size == pytest.approx(100 * math.sqrt(2))
    half = 4.303 * 0.1 / math.sqrt(3)  # Student's t, two degrees of freedom
    assert found.interval == pytest.approx([100 * 2 ** ((5 - half) / 10), 100 * 2 ** ((5 + half) / 10)], rel=0.01)
    assert found.pairs == 3


@pytest.mark.parametrize(
    ("shift", "size", "interval"), [(30.0, math.inf, (400, math.inf)), (-30.0, 0, (0, 100))], ids=["above", "below"]
)
def test_a_score_that_no_size_has_is_outside(shift, size, interval):
    own = {0: 0.0 + shift, 1: 1.1 + shift, 2: 0.1 + shift}
    found = matching_size(own, merged(curve(0), curve(1, 1.0), curve(2)))
    assert found.size == size
    assert found.interval == pytest.approx(interval)


def test_equal_differences_bound_nothing():
    found = matching_size({0: 5.0, 1: 15.0}, merged(curve(0), curve(1, 10.0)))
    assert found.size == pytest.approx(100 * math.sqrt(2))
    assert found.interval == (0, math.inf)


def test_one_seed_has_an_open_interval():
    found = matching_size({0: 10.0, 7: 99.0}, curve(0))
    assert found.size == pytest.approx(200)
    assert found.interval == (0, math.inf)
    assert found.pairs == 1


def test_one_size_or_no_common_seed_is_no_curve():
    assert matching_size({0: 10.0}, {100: {0: 3.0}}) is None
    assert matching_size({5: 10.0}, curve(0)) is None


def test_intervals_cover_the_true_size():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        curves = merged(*(curve(seed, rng.normal()) for seed in range(5)))
        curves = {size: {seed: value + rng.normal() for seed, value in row.items()} for size, row in curves.items()}
        low, high = matching_size({seed: 5 + rng.normal(0, 1.4) for seed in range(5)}, curves).interval
        covered += low <= 100 * math.sqrt(2) <= high
    assert 90 <= covered <= 100
