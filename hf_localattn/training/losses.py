"""Losses of outputs and labels in place of the model's. Like the model's, they have the loss of local layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from hf_localattn.models.task_heads import add_local_loss


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


def with_local_loss(loss_of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a loss of outputs and labels that adds the loss of local layers, as heads do with the loss of a task."""

    def whole_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None, **options: Any) -> torch.Tensor:
        loss = loss_of(outputs, labels, num_items_in_batch=num_items_in_batch, **options)
        return add_local_loss(loss, outputs, labels, num_items_in_batch)

    return whole_loss
