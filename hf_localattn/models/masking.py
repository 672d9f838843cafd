"""Padded tokens: which count, the order of marked ones, and mean and softmax over them."""

from __future__ import annotations

import torch


def ensure_nonempty_mask(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Return the mask (B, L), with the first token True in rows that have none: they count as texts of length 1."""
    if mask is None:
        return None
    is_first = torch.arange(mask.shape[1], device=mask.device) == 0
    return mask | (is_first & ~mask.any(-1, keepdim=True))


def masked_mean(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mean (B, D) of states (B, L, D) over tokens that a mask (B, L) marks, at least one in each row."""
    if mask is None:
        return states.mean(1)
    # Shares first: a sum over many tokens may not fit into half precision.
    shares = mask.to(states.dtype) / mask.sum(-1, keepdim=True).to(states.dtype)
    return (shares.unsqueeze(1) @ states).squeeze(1)


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor | None, dim: int = -1) -> torch.Tensor:
    """Apply a softmax along a dimension over the places where a mask is True; other places get 0.

    Where a mask is False everywhere, all places get 0.

    Args:
        scores: of any shape.
        mask: broadcastable to it; all places count when absent.
        dim: the dimension.
    """
    if mask is None:
        return scores.softmax(dim)
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim).masked_fill(~mask, 0.0)


def argsort_mask_first(mask: torch.Tensor) -> torch.Tensor:
    """Return the positions (B, L) of the tokens that a mask (B, L) marks, then those of the others, in text order."""
    places = torch.arange(mask.shape[-1], device=mask.device)
    # Keys that all differ, as no stable sort gets through transformers' exporter to ONNX.
    return torch.where(mask, places, places + mask.shape[-1]).argsort(dim=-1)


def gather_tokens(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Gather `states` (B, L, F) at the positions `tokens` (B, N): (B, N, F)."""
    return states.gather(1, tokens.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
