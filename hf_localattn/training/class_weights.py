"""Weights of classes in the loss of a classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from hf_localattn.extras import LazyExtra

class_weight = LazyExtra("sklearn.utils.class_weight", "train", "--class_weights")

BALANCED = "balanced"


def read_class_weights(options: Sequence[str], names: Sequence[str], labels: Sequence[int]) -> list[float]:
    """Return the weight of each class.

    Args:
        options: "balanced" alone, or entries such as "spam=2.5". Other classes have the weight 1.
        names: Names of the classes in order.
        labels: Classes of the training rows, for "balanced". A class without rows has the weight 1.

    Raises:
        ValueError: An entry has no class, no positive number, or a class of another entry.
    """
    weights = dict.fromkeys(names, 1.0)
    if list(options) == [BALANCED]:
        present = np.unique(labels)
        balanced = class_weight.compute_class_weight(BALANCED, classes=present, y=np.asarray(labels))
        weights |= {names[label]: float(weight) for label, weight in zip(present, balanced, strict=True)}
        return list(weights.values())
    seen = set()
    for option in options:
        name, _, text = option.rpartition("=")
        if name not in weights:
            raise ValueError(f"--class_weights {option}: {name!r} is none of the classes {', '.join(names)}.")
        if name in seen:
            raise ValueError(f"--class_weights names the class {name!r} twice: leave one out.")
        seen.add(name)
        weights[name] = _read_weight(option, text)
    return list(weights.values())


def _read_weight(option: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ValueError(f"--class_weights {option}: the weight must be a positive number.")
    return weight


class WeightedLoss:
    """Mean of the cross-entropy of each row times the weight of its class, for `compute_loss_func` of Trainer.

    Args:
        weights: Weight of each class.
        label_smoothing: Share of the labels that is spread over all classes.
    """

    def __init__(self, weights: Sequence[float], label_smoothing: float = 0.0):
        self.weights = torch.tensor(weights)
        self.label_smoothing = label_smoothing

    def __call__(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        """Return the sum over the batch, divided by its size or by `num_items_in_batch`."""
        logits = outputs["logits"]
        total = functional.cross_entropy(
            logits,
            labels,
            self.weights.to(logits),
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        count = len(labels) if num_items_in_batch is None else num_items_in_batch
        loss = total / count
        local_loss = outputs.get("local_loss")
        if local_loss is not None:
            loss = loss + local_loss * (len(labels) / count)
        return loss
