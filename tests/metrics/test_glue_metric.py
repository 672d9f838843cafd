"""Expected numbers are worked out by hand."""

import logging
import math

import numpy as np
import pytest

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.classification_scores import GLUE_METRICS, SCORES, logger


@pytest.mark.parametrize("task", ["mnli", "qnli", "rte", "sst2", "wnli"])
def test_accuracy(task):
    result = load_metric("glue", task).compute(predictions=[0, 1, 1, 0], references=[0, 1, 0, 0])
    assert result == {"accuracy": 0.75}


@pytest.mark.parametrize("task", ["mrpc", "qqp"])
def test_accuracy_and_f1_of_class_1(task):
    result = load_metric("glue", task).compute(predictions=[0, 1, 1, 0, 1], references=[0, 1, 0, 1, 1])
    assert result == {"accuracy": pytest.approx(3 / 5), "f1": pytest.approx(2 / 3)}


def test_matthews_correlation():
    # true and false positives 2 and 1, true and false negatives 1 and 1
    result = load_metric("glue", "cola").compute(predictions=[1, 1, 1, 0, 0], references=[1, 1, 0, 0, 1])
    expected = (2 * 1 - 1 * 1) / math.sqrt((2 + 1) * (2 + 1) * (1 + 1) * (1 + 1))
    assert result == {"matthews_correlation": pytest.approx(expected)}


def test_correlations_of_scores():
    result = load_metric("glue", "stsb").compute(predictions=[1.0, 2.0, 4.0], references=[0.0, 1.0, 2.0])
    assert result == {"pearson": pytest.approx(3 / math.sqrt(2 * 14 / 3)), "spearmanr": pytest.approx(1)}


@pytest.mark.parametrize("predictions", [[1.5, 1.5], [2.0]])
def test_a_correlation_that_is_not_defined_is_none(predictions):
    references = [0.5, 1.0][: len(predictions)]
    result = load_metric("glue", "stsb").compute(predictions=predictions, references=references)
    assert result == {"pearson": 0, "spearmanr": 0}
    assert load_metric("glue", "cola").compute(predictions=[1, 1], references=[0, 1]) == {"matthews_correlation": 0}


@pytest.mark.parametrize("config_name", [None, "ax"])
def test_the_task_must_be_named(config_name):
    with pytest.raises(ValueError, match=r"glue has no configuration .*; choose one of cola, mnli, "):
        load_metric("glue", config_name)


def test_every_metric_of_a_task_is_known():
    assert {name for names in GLUE_METRICS.values() for name in names} <= set(SCORES)
    assert len(GLUE_METRICS) == 9


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_of_what_is_no_number_are_none_with_one_warning(bad, caplog):
    type(logger).warning_once.cache_clear()
    predictions, references = np.array([0.5, bad, 1.0]), np.array([0.0, 1.0, 2.0])
    with caplog.at_level(logging.WARNING, logger.name):
        scores = [SCORES[name](predictions, references) for name in ("mse", "rmse", "pearson", "spearmanr")]
    assert all(map(math.isnan, scores))
    assert len(caplog.records) == 1
    assert "the training has diverged. Try a smaller learning rate." in caplog.text
