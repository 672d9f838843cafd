"""Expected numbers are worked out by hand."""

import logging
import math

import numpy as np
import pytest

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.classification_scores import GLUE_METRICS, SCORES, logger

BINARY = [0, 1, 1, 0, 1], [0, 1, 0, 1, 1]
EXPECTED = {
    "mrpc": (*BINARY, {"accuracy": 3 / 5, "f1": 2 / 3}),
    "qqp": (*BINARY, {"accuracy": 3 / 5, "f1": 2 / 3}),
    # true and false positives 2 and 1, true and false negatives 1 and 1
    "cola": ([1, 1, 1, 0, 0], [1, 1, 0, 0, 1], {"matthews_correlation": (2 - 1) / math.sqrt(3 * 3 * 2 * 2)}),
    "stsb": ([1.0, 2.0, 4.0], [0.0, 1.0, 2.0], {"pearson": 3 / math.sqrt(2 * 14 / 3), "spearmanr": 1}),
    **dict.fromkeys(("mnli", "qnli", "rte", "sst2", "wnli"), (*BINARY, {"accuracy": 3 / 5})),
}
UNDEFINED = {
    "stsb": ([1.5, 1.5], [0.5, 1.0], {"pearson": 0, "spearmanr": 0}),
    "cola": ([1, 1], [0, 1], {"matthews_correlation": 0}),
}


@pytest.mark.parametrize(("task", "case"), [*EXPECTED.items(), *UNDEFINED.items()])
def test_tasks(task, case):
    predictions, references, expected = case
    scores = load_metric("glue", task).compute(predictions=predictions, references=references)
    assert scores == pytest.approx(expected)
    assert EXPECTED.keys() == GLUE_METRICS.keys()


def test_one_number_has_no_correlation():
    assert SCORES["pearson"](np.array([2.0]), np.array([0.5])) == 0


@pytest.mark.parametrize("config_name", [None, "ax"])
def test_the_task_must_be_named(config_name):
    with pytest.raises(ValueError, match=r"glue has no configuration .*; choose one of cola, mnli, "):
        load_metric("glue", config_name)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_of_what_is_no_number_are_none_with_one_warning(bad, caplog):
    type(logger).warning_once.cache_clear()
    predictions, references = np.array([0.5, bad, 1.0]), np.array([0.0, 1.0, 2.0])
    with caplog.at_level(logging.WARNING, logger.name):
        scores = [SCORES[name](predictions, references) for name in ("mse", "rmse", "pearson", "spearmanr")]
    assert all(map(math.isnan, scores))
    assert [record.getMessage() for record in caplog.records] == [caplog.messages[0]]
    assert "diverged" in caplog.text
