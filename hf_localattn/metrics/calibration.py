"""Calibration of probabilities: temperature scaling, and the expected calibration error.

Source: On Calibration of Modern Neural Networks (Guo et al., 2017).
"""

from __future__ import annotations

import logging
import math

import numpy as np
import torch
from torch.nn import functional

from hf_localattn.data.labels import MULTI_LABEL, predictions_from_logits, probabilities_from_logits
from hf_localattn.extras import LazyExtra

logger = logging.getLogger(__name__)

optimize = LazyExtra("scipy.optimize", "train", "--temperature_scaling")
classification = LazyExtra("torchmetrics.functional.classification", "train", "--temperature_scaling")

LARGEST = 100.0
"""Largest temperature, and the inverse of the smallest."""


def expected_calibration_error(logits: np.ndarray, references: np.ndarray, problem_type: str) -> float:
    """Return the expected calibration error of 15 bins: of the predicted class, or of each class of a set.

    Args:
        logits: (N, classes).
        references: Class indices (N,), or 0 or 1 per class (N, classes).
        problem_type: `SINGLE_LABEL` or `MULTI_LABEL`.
    """
    probabilities = torch.from_numpy(probabilities_from_logits(logits, problem_type))
    targets = torch.as_tensor(references).long()
    if problem_type == MULTI_LABEL:
        error = classification.binary_calibration_error(probabilities.flatten(), targets.flatten())
    else:
        error = classification.multiclass_calibration_error(probabilities, targets, num_classes=logits.shape[1])
    return float(error)


def fit_temperature(logits: np.ndarray, references: np.ndarray, problem_type: str) -> float:
    """Return the temperature T for which the likelihood of references under `logits / T` is greatest.

    If all predictions are right, the likelihood grows without limit as T falls: then T is 1, with a warning.

    Args:
        logits: (N, classes).
        references: Class indices (N,), or 0 or 1 per class (N, classes).
        problem_type: `SINGLE_LABEL` or `MULTI_LABEL`.
    """
    if np.array_equal(predictions_from_logits(logits, problem_type), references):
        logger.warning("All %d validation rows are predicted rightly: no temperature can be fitted.", len(logits))
        return 1.0
    scores = torch.from_numpy(logits).double()
    targets = torch.as_tensor(references)

    def loss(log_temperature: float) -> float:
        scaled = scores / math.exp(log_temperature)
        if problem_type == MULTI_LABEL:
            return float(functional.binary_cross_entropy_with_logits(scaled, targets.double()))
        return float(functional.cross_entropy(scaled, targets))

    limit = math.log(LARGEST)
    best = optimize.minimize_scalar(loss, bounds=(-limit, limit), method="bounded")
    return math.exp(best.x)
