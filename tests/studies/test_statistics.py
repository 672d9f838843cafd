"""Statistics against SciPy, naive formulas and simulated tables."""

import math

import numpy as np
import pytest
from scipy import stats

from hf_localattn.studies import statistics

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
