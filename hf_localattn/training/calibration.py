"""Temperature scaling of a trained classifier: the weights of its last layer are divided by the temperature.

Every program that loads the model then computes calibrated probabilities. The predicted classes stay the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from hf_localattn.metrics.calibration import fit_temperature


def last_layer(model: PreTrainedModel) -> nn.Linear:
    """Return the linear layer that computes the logits; raise `ValueError` if there is none."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear or linear[-1].out_features != model.config.num_labels:
        raise ValueError(f"--temperature_scaling needs a linear last layer, which {type(model).__name__} lacks.")
    return linear[-1]


def calibrate(trainer: Any, features: Any, problem_type: str) -> float:
    """Scale the logits of a model by the temperature that suits labeled features, and return it.

    Raises:
        ValueError: Something after the last linear layer changes the logits, too.
    """
    output = trainer.predict(features, metric_key_prefix="eval")
    temperature = fit_temperature(output.predictions, output.label_ids, problem_type)
    with torch.no_grad():
        for parameter in last_layer(trainer.model).parameters():
            parameter.div_(temperature)
    scaled = trainer.predict(features, metric_key_prefix="eval").predictions
    if not np.allclose(scaled, output.predictions / temperature, rtol=1e-3, atol=1e-3):
        raise ValueError("--temperature_scaling: the logits are not those of the last linear layer; leave it out.")
    return temperature
