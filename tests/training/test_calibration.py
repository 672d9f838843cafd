"""Temperature scaling, calibration errors and class reports, on values computed by hand."""

import numpy as np
import pytest

from hf_localattn.data.labels import MULTI_LABEL, SINGLE_LABEL
from hf_localattn.metrics.class_report import class_report
from hf_localattn.training.calibration import expected_calibration_error, fit_temperature
from hf_localattn.training.summary import report_sections

HALF = np.log([[3.0, 1.0]] * 4)
"""Logits of four rows: the first class has the probability 3 / 4."""


@pytest.mark.parametrize(("references", "error"), [([0, 0, 0, 1], 0), ([0, 0, 0, 0], 0.25), ([0, 1, 1, 1], 0.5)])
def test_the_calibration_error_is_the_distance_of_confidence_and_accuracy(references, error):
    logits = HALF.astype(np.float32)
    assert expected_calibration_error(logits, np.array(references), SINGLE_LABEL) == pytest.approx(error, abs=1e-6)
    bits = np.array(references)[:, None]
    odds = np.full((4, 1), np.log(1 / 3), dtype=np.float32)  # the class of a set has the probability 1 / 4
    assert expected_calibration_error(odds, bits, MULTI_LABEL) == pytest.approx(error, abs=1e-6)


@pytest.mark.parametrize("sharpened", [0.25, 1, 4])
def test_the_temperature_undoes_what_sharpened_the_logits(sharpened):
    logits = (HALF * sharpened).astype(np.float32)
    assert fit_temperature(logits, np.array([0, 0, 0, 1]), SINGLE_LABEL) == pytest.approx(sharpened, rel=1e-3)
    odds = np.full((4, 1), np.log(3) * sharpened, dtype=np.float32)
    bits = np.array([[1.0], [1.0], [1.0], [0.0]], dtype=np.float32)
    assert fit_temperature(odds, bits, MULTI_LABEL) == pytest.approx(sharpened, rel=1e-3)


def test_no_temperature_fits_rows_that_are_all_right(caplog):
    assert fit_temperature(HALF.astype(np.float32), np.zeros(4, dtype=int), SINGLE_LABEL) == 1
    assert "no temperature" in caplog.text


F1 = {"f1-score": pytest.approx(2 / 3)}


def test_a_report_counts_rows_by_class():
    report = class_report(np.array([0, 1, 1]), np.array([0, 0, 1]), ["accuracy", "b", "c"])
    assert report["classes"]["accuracy"] == {"precision": 1.0, "recall": 0.5, **F1, "support": 2}
    assert report["classes"]["c"] == {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}
    assert report["confusion_matrix"] == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    first, second = report_sections("test", report)
    assert first.rows[1] == ["accuracy", 1.0, 0.5, pytest.approx(2 / 3), 2]
    assert second.rows == [["", "accuracy", "b", "c"], ["accuracy", 1, 1, 0], ["b", 0, 1, 0], ["c", 0, 0, 0]]
    sets = class_report(np.array([[1, 0], [1, 1]]), np.array([[1, 1], [0, 1]]), ["a", "b"])
    assert [scores["support"] for scores in sets["classes"].values()] == [1, 2]
    assert sets.keys() == {"classes"}
