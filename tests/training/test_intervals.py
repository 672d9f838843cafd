"""Intervals of scores over rows."""

import numpy as np
import pytest
from scipy.special import stdtrit

from hf_localattn.tasks import MultipleChoice
from hf_localattn.tasks.task import Scored, Target
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.intervals import MOST_ROWS, intervals_of_rows


def mean(predictions, references):
    return {"mean": float(np.mean(np.equal(predictions, references)))}


def test_the_interval_of_a_mean_is_that_of_a_t_test():
    """With a group for each row the jackknife is the usual standard error."""
    predictions, references = np.arange(20) % 4, np.zeros(20)
    low, high = intervals_of_rows(mean, predictions, references)["mean"]
    right = predictions == 0
    half = stdtrit(19, 0.975) * right.std(ddof=1) / np.sqrt(20)
    assert (low, high) == pytest.approx((0.25 - half, 0.25 + half))
    assert intervals_of_rows(mean, predictions.tolist(), references.tolist())["mean"] == (low, high)


@pytest.mark.parametrize(
    ("predictions", "count"),
    [([1], 1), ([1] * 30, 30), ([1, 0] * MOST_ROWS, 2 * MOST_ROWS)],
    ids=["one", "equal", "many"],
)
def test_scores_without_an_interval(predictions, count):
    assert intervals_of_rows(mean, predictions, [1] * count) == {}


def test_an_interval_ends_with_the_perfect_score():
    task = MultipleChoice(MultipleChoice.DataArguments(validation_file="rows.json"))
    evaluation = Evaluation(task, Target({"loss": False, "accuracy": True}), None, {})
    scored = Scored(None, {}, pair=(np.array([0] + [1] * 29), np.ones(30)))
    low, high = evaluation.intervals(scored)["accuracy"]
    assert low < 29 / 30 < high == 1
    assert evaluation.intervals(Scored(None, {})) == {}
