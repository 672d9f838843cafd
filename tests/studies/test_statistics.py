"""Statistics against SciPy, naive formulas and simulated tables."""

import math

import numpy as np
import pytest
from scipy import stats

from hf_localattn.studies import statistics
from scripts import simulate_statistics

OWN, OTHER = [81.0, 83.0, 82.5, 84.0], [79.5, 80.5, 81.0, 83.9]


def test_seeds_are_compared_by_a_paired_t_test():
    found, expected = statistics.compare_paired(OWN, OTHER), stats.ttest_rel(OWN, OTHER)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval()))


def test_folds_have_the_corrected_variance():
    found = statistics.compare_paired(OWN, OTHER, overlap=1 / 3)
    differences = np.subtract(OWN, OTHER)
    t = differences.mean() / math.sqrt(differences.var(ddof=1) * (1 / 4 + 1 / 3))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), 3))
    assert found.p_value > 2 * stats.ttest_rel(OWN, OTHER).pvalue


def test_one_run_with_examples_is_a_paired_t_test_over_examples():
    differences = np.random.default_rng(0).normal(0.1, 1, (1, 40))
    found = statistics.compare_paired([differences.mean()], [0.0], examples=differences)
    assert found.p_value == pytest.approx(stats.ttest_1samp(differences[0], 0).pvalue)
    assert "no other seeds" in found.note


def test_runs_and_examples_vary_together():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (5, 1)) + rng.normal(0, 1, (1, 200)) + rng.normal(0, 1, (5, 200))
    found = statistics.compare_paired(noise.mean(axis=1), np.zeros(5), examples=noise)
    low, high = found.interval
    of_seeds = statistics.compare_paired(noise.mean(axis=1), np.zeros(5)).interval
    assert high - low > of_seeds[1] - of_seeds[0]
    shifted = noise - low  # the interval then ends at 0
    assert statistics.compare_paired(shifted.mean(axis=1), np.zeros(5), examples=shifted).p_value == pytest.approx(
        0.05
    )


def test_the_bootstrap_resamples_runs_and_examples():
    differences = np.random.default_rng(1).normal(1, 1, (40, 100)) + np.random.default_rng(2).normal(0, 1, (40, 1))
    low, high = statistics.hierarchical_bootstrap(differences)
    exact = statistics.compare_paired(differences.mean(axis=1), np.zeros(40), examples=differences).interval
    assert (low, high) == pytest.approx(exact, abs=0.08)


@pytest.mark.parametrize(
    ("own", "other", "reason"),
    [([1.0], [0.5], "one run"), ([0.52, 0.57, 0.58], [0.50, 0.55, 0.56], "all differences are equal")],
)
def test_a_missing_interval_has_a_reason(own, other, reason):
    found = statistics.compare_paired(own, other)
    assert found.interval is found.p_value is None
    assert reason in found.note


def test_scores_that_cannot_be_compared():
    with pytest.raises(ValueError, match="NaN or infinite"):
        statistics.compare_paired([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match="got 1 and 2 scores"):
        statistics.compare_paired([1.0], [1.0, 2.0])


def test_holm():
    assert statistics.holm([0.04, 0.01, None, 0.03, 0.9]) == [
        pytest.approx(x) if x else None for x in (0.09, 0.04, None, 0.09, 0.9)
    ]


def naive_violation(own, other, steps=40_000):
    """The violation ratio as a sum over a fine grid of quantiles."""
    levels = (np.arange(steps) + 0.5) / steps
    first, second = (np.sort(one)[(levels * len(one)).astype(int)] for one in (own, other))
    gaps = first - second
    return (gaps[gaps < 0] ** 2).sum() / (gaps**2).sum()


def test_almost_stochastic_order():
    own, other = np.array([3.0, 5.0, 4.0, 9.0]), np.array([2.0, 4.5, 8.0])
    rng = np.random.default_rng(0)
    draws = [rng.choice(values, size=(2000, len(values))) for values in (own, other)]
    bootstrapped = [naive_violation(a, b, 1200) for a, b in zip(*draws, strict=True)]
    expected = naive_violation(own, other) + 1.6449 * np.std(bootstrapped)
    assert statistics.almost_stochastic_order(own, other) == pytest.approx(min(1, expected), abs=2e-3)
    assert statistics.almost_stochastic_order([5, 6, 7], [1, 2, 3]) == 0
    assert statistics.almost_stochastic_order([1, 2, 3], [5, 6, 7]) == 1
    assert statistics.almost_stochastic_order([1, 1], [1, 1]) == 0.5


def test_a_detectable_difference_is_detected_in_four_of_five_cases():
    rng, runs = np.random.default_rng(0), 5
    shift = statistics.detectable_difference(2.0, runs)
    own, other = rng.normal(shift, 2, (20_000, runs)), rng.normal(0, 2, (20_000, runs))
    assert (stats.ttest_rel(own, other, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.01)
    assert statistics.detectable_difference(2.0, 1) is None
    with pytest.raises(ValueError, match="at least 0; got -1"):
        statistics.detectable_difference(-1, 3)


@pytest.mark.parametrize("runs", [3, 10])
def test_null_tables(runs):
    """A smaller version of scripts/simulate_statistics.py: five standard errors for 600 tables and 3,000 intervals."""
    wrong, coverage = simulate_statistics.null_tables(600, runs, simulate_statistics.NOISES["normal"])
    assert wrong < 0.05 + 5 * math.sqrt(0.05 * 0.95 / 600)
    assert coverage == pytest.approx(0.95, abs=0.03)
    assert simulate_statistics.folds(1000, runs) == pytest.approx(0.95, abs=0.035)
    assert simulate_statistics.examples(500, runs, 100, (0.05, 0.1, 0.3)) > 0.91
