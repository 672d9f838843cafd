"""Losses of outputs and labels in place of the model's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hf_localattn.models.task_heads import add_local_loss


def with_local_loss(loss_of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a loss of outputs and labels that adds the loss of local layers, as heads do with the loss of a task."""

    def whole_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None, **options: Any) -> torch.Tensor:
        loss = loss_of(outputs, labels, num_items_in_batch=num_items_in_batch, **options)
        return add_local_loss(loss, outputs, labels, num_items_in_batch)

    return whole_loss
