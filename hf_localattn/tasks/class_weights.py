"""Weights of classes in the loss of a classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils import class_weight
from torch.nn import functional

from hf_localattn.errors import join_names, named_option
from hf_localattn.models.task_heads import add_local_loss

BALANCED = "balanced"


def read_class_weights(options: Sequence[str], names: Sequence[str], labels: Sequence[int]) -> list[float]:
    """Return the weight of each class, 1 by default.

    Args:
        options: "balanced" alone, or entries such as "spam=2.5".
        names: Names of the classes in order.
        labels: Classes of the training rows, for "balanced".

    Raises:
        ValueError: An entry names no class, or one again, or its weight is not positive.
    """
    if list(options) == [BALANCED]:
        present = np.unique(labels)
        balanced = class_weight.compute_class_weight(BALANCED, classes=present, y=np.asarray(labels))
        by_label = dict(zip(present.tolist(), balanced.tolist(), strict=True))
        return [by_label.get(label, 1.0) for label in range(len(names))]
    weights: dict[str, float] = {}
    for option in options:
        name, _, weight = option.rpartition("=")
        if name not in names:
            classes = join_names(names, 20)
            raise ValueError(f"--class_weights {option}: give {BALANCED} alone, or NAME=WEIGHT of {classes}.")
        if name in weights:
            raise ValueError(f"--class_weights {option}: give each class one weight.")
        with named_option(f"--class_weights {option}"):
            weights[name] = float(weight)
        if not 0 < weights[name] < math.inf:
            raise ValueError(f"--class_weights {option}: a weight must be above 0.")
    return [weights.get(name, 1.0) for name in names]


def weighted_loss(
    outputs: Any,
    labels: torch.Tensor,
    num_items_in_batch: Any = None,
    *,
    weights: Sequence[float],
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Compute the mean over rows of the cross-entropy times the weight of the class, and add the loss of local layers.

    The mean is the sum divided by `num_items_in_batch`, if that is given.
    """
    logits = outputs["logits"]
    weight = logits.new_tensor(weights)
    loss = functional.cross_entropy(logits, labels, weight, reduction="sum", label_smoothing=label_smoothing)
    return add_local_loss(loss / (num_items_in_batch or len(labels)), outputs, labels, num_items_in_batch)
