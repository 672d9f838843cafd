"""Calibration of probabilities: temperature scaling, and the expected calibration error.

Source: On Calibration of Modern Neural Networks (Guo et al., 2017).

Shapes: logits (N, classes); references (N,), class indices, or (N, classes), 0 or 1 per class.
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

LIMIT = math.log(100)
"""Largest logarithm of a temperature, and its smallest with a minus."""


def expected_calibration_error(logits: np.ndarray, references: np.ndarray, problem_type: str) -> float:
    """Return the error in 15 bins: of the predicted class, or of each class of a set."""
    probabilities = torch.from_numpy(probabilities_from_logits(logits, problem_type))
    targets = torch.as_tensor(references).long()
    if problem_type == MULTI_LABEL:
        return float(classification.binary_calibration_error(probabilities.flatten(), targets.flatten()))
    return float(classification.multiclass_calibration_error(probabilities, targets, logits.shape[1]))


def fit_temperature(logits: np.ndarray, references: np.ndarray, problem_type: str) -> float:
    """Return the temperature T for which `logits / T` make the references most likely.

    If all predictions are right, the likelihood grows without end as T falls. T is then 1.
    """
    if np.array_equal(predictions_from_logits(logits, problem_type), references):
        logger.warning("All %d validation rows are predicted rightly: no temperature can be fitted.", len(logits))
        return 1.0
    is_set = problem_type == MULTI_LABEL
    loss = functional.binary_cross_entropy_with_logits if is_set else functional.cross_entropy
    scores = torch.from_numpy(logits).double()
    targets = torch.as_tensor(references, dtype=torch.double if is_set else torch.long)

    def loss_at(log_temperature: float) -> float:
        return float(loss(scores / math.exp(log_temperature), targets))

    return math.exp(optimize.minimize_scalar(loss_at, bounds=(-LIMIT, LIMIT), method="bounded").x)
