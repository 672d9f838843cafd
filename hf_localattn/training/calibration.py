"""Temperature scaling of a trained classifier, and the expected calibration error.

The weights of the last layer are divided by the temperature. Every program that loads the model then computes
calibrated probabilities. The predicted classes stay the same.

Source: On Calibration of Modern Neural Networks (Guo et al., 2017).

Shapes: logits (N, classes); references (N,), class indices, or (N, classes), 0 or 1 per class.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import torch
from scipy import optimize
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

from hf_localattn.data.labels import MULTI_LABEL, Labels, predictions_from_logits, probabilities_from_logits
from hf_localattn.tasks.task import Split, labeled_outputs
from hf_localattn.training.trainer import TaskTrainer

logger = logging.getLogger(__name__)

LIMIT = math.log(100)
"""Largest logarithm of a temperature, and its smallest with a minus."""


def expected_calibration_error(logits: np.ndarray, references: np.ndarray, problem_type: str) -> float:
    """Return the error in 15 bins: of the predicted class, or of each class of a set."""
    from torchmetrics.functional import classification  # takes seconds

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


def last_layer(model: PreTrainedModel) -> nn.Linear:
    """Return the linear layer that computes the logits; raise `ValueError` if there is none."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear or linear[-1].out_features != model.config.num_labels:
        raise ValueError(f"--temperature_scaling needs a linear last layer, which {type(model).__name__} lacks.")
    return linear[-1]


def calibrate(trainer: TaskTrainer, split: Split, labels: Labels) -> float:
    """Scale the logits of a model by the temperature that suits a labeled split, and return it.

    Raises:
        ValueError: Something after the last linear layer changes the logits, too.
    """
    logits = trainer.predict(split.features, metric_key_prefix="eval").predictions.predictions
    assert split.labels is not None
    temperature = fit_temperature(logits, split.labels, labels.problem_type)
    with torch.no_grad():
        for parameter in last_layer(trainer.model).parameters():
            parameter.div_(temperature)
    scaled = trainer.predict(split.features, metric_key_prefix="eval").predictions.predictions
    if not np.allclose(scaled, logits / temperature, rtol=1e-3, atol=1e-3):
        raise ValueError("--temperature_scaling: the logits are not those of the last linear layer; leave it out.")
    return temperature


def calibration_scores(split: Split, logits: np.ndarray, labels: Labels, temperature: float) -> dict[str, float]:
    """Return the calibration errors of logits, and of those before their division; {} without labels."""
    logits, references, _ = labeled_outputs(split, logits)
    if not len(references):
        return {}
    problem_type = labels.problem_type
    return {
        "calibration_error": expected_calibration_error(logits, references, problem_type),
        "calibration_error_before": expected_calibration_error(logits * temperature, references, problem_type),
    }
