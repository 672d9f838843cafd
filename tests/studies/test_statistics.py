"""Differences of results against SciPy, and what is not compared."""

import math

import numpy as np
import pytest
from scipy import stats

from hf_localattn.studies.compare import compare_runs, holm

OWN, OTHER = {1: 81.0, 2: 83.0, 3: 82.5, 4: 84.0}, {1: 79.5, 2: 80.5, 3: 81.0, 4: 83.9}
DIFFERENCES = np.subtract([*OWN.values()], [*OTHER.values()])


def test_seeds_are_compared_by_a_paired_t_test():
    found, expected = compare_runs(OWN, OTHER), stats.ttest_rel([*OWN.values()], [*OTHER.values()])
    assert found.difference == pytest.approx(DIFFERENCES.mean())
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval()))
    assert (found.pairs, found.remark) == (4, None)


def test_folds_have_the_corrected_variance():
    found = compare_runs(OWN, OTHER, folds=4)
    t = DIFFERENCES.mean() / math.sqrt(DIFFERENCES.var(ddof=1) * (1 / 4 + 1 / 3))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), 3))
    assert found.p_value > compare_runs(OWN, OTHER).p_value


@pytest.mark.parametrize(
    ("own", "other", "difference", "remark"),
    [
        ({1: 1.0}, {1: 0.5}, 0.5, "one run: no interval"),
        ({1: 0.52, 2: 0.57, 3: 0.58}, {1: 0.50, 2: 0.55, 3: 0.56}, 0.02, "all differences are equal"),
        ({1: 1.0, 2: 3.0, 3: 9.0}, {1: 0.0, 2: 1.0, 4: 9.0}, 1.5, "run 3, 4 of only one of both is left out"),
        ({1: 1.0}, {2: 1.0}, None, "no run of both has the same seed"),
        ({1: 1.0}, {}, None, None),
        ({1: 1.0, 2: math.nan}, {1: 1.0, 2: 1.0}, None, "a score is NaN"),
    ],
)
def test_limits_are_told(own, other, difference, remark):
    found = compare_runs(own, other)
    assert found.difference == (None if difference is None else pytest.approx(difference))
    assert remark is None or remark in found.remark
    assert (found.interval is None) == (difference != 1.5)


def test_runs_on_other_data_are_not_compared():
    data = [{1: {"test data": digest, "train data": "x"}} for digest in ("a", "b")]
    assert compare_runs({1: 1.0}, {1: 2.0}, *data).remark == "the runs have other data (test data): not compared"
    assert compare_runs({1: 1.0}, {1: 2.0}, data[0], data[0]).difference == -1


def test_holm():
    assert holm([0.04, 0.01, None, 0.03, 0.9]) == [
        pytest.approx(x) if x else None for x in (0.09, 0.04, None, 0.09, 0.9)
    ]
