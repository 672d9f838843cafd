"""Temperature scaling of a trained classifier: its last layer is divided by a temperature.

Every program that loads the model then computes calibrated probabilities. The order of the classes stays the same.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from torch import nn

from hf_localattn.metrics.calibration import fit_temperature

logger = logging.getLogger(__name__)

NUM_CHECKED = 8
"""Number of rows whose logits are compared before and after."""


def check_last_layer(model: nn.Module) -> nn.Linear:
    """Return the last linear layer of a classifier.

    Raises:
        ValueError: It does not have an output for each label.
    """
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear or linear[-1].out_features != model.config.num_labels:
        raise ValueError(f"--temperature_scaling needs a linear last layer, which {type(model).__name__} lacks.")
    return linear[-1]


def calibrate(trainer: Any, features: Any, problem_type: str) -> float:
    """Divide the logits of a model by the temperature that suits labeled features, and return it.

    Args:
        trainer: `TaskTrainer` whose predictions are logits (N, classes).
        features: Features of the validation rows.
        problem_type: Problem type of the labels.

    Raises:
        ValueError: The logits do not come from the last layer alone.
    """
    output = trainer.predict(features, metric_key_prefix="eval")
    temperature = fit_temperature(output.predictions, output.label_ids, problem_type)
    layer = check_last_layer(trainer.model)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.div_(temperature)
    checked = features.select(range(min(NUM_CHECKED, len(features))))
    scaled = trainer.predict(checked, metric_key_prefix="eval").predictions
    if not np.allclose(scaled, output.predictions[: len(checked)] / temperature, rtol=1e-3, atol=1e-3):
        raise ValueError("--temperature_scaling failed: more than the last linear layer makes the logits. Omit it.")
    logger.info("The last layer is divided by the temperature %.4g, fitted on %d rows.", temperature, len(features))
    return temperature
