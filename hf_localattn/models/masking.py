"""Softmax over the real ones of padded tokens."""

from __future__ import annotations

import torch


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor | None, dim: int = -1) -> torch.Tensor:
    """Softmax along a dimension over the places where a mask is True; 0 elsewhere, and everywhere if there are none.

    Args:
        scores: of any shape.
        mask: broadcastable to it; all places count when absent.
        dim: the dimension.
    """
    if mask is None:
        return scores.softmax(dim)
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim).masked_fill(~mask, 0.0)
