"""Operations on padded batches: masked mean and softmax, and sorting and gathering of marked tokens."""

import torch


def ensure_nonempty_mask(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Return the mask (B, L) with the first position set to True in rows without any True."""
    if mask is None:
        return None
    is_first = torch.arange(mask.shape[1], device=mask.device) == 0
    return mask | (is_first & ~mask.any(-1, keepdim=True))


def masked_mean(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mean (B, D) of states (B, L, D) over the tokens in a mask (B, L) that has at least one per row."""
    if mask is None:
        return states.mean(1)
    # Divide before summing, as a sum over many tokens may overflow in half precision.
    shares = mask.to(states.dtype) / mask.sum(-1, keepdim=True).to(states.dtype)
    return (shares.unsqueeze(1) @ states).squeeze(1)


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor | None, dim: int = -1) -> torch.Tensor:
    """Apply a softmax over the elements where a mask is True. Other elements get 0, even if no element is True.

    The mask is broadcastable to `scores`. By default all elements are used.
    """
    if mask is None:
        return scores.softmax(dim)
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim).masked_fill(~mask, 0.0)


def argsort_mask_first(mask: torch.Tensor) -> torch.Tensor:
    """Return positions (B, L): first where the mask (B, L) is True, then the rest, both in text order."""
    places = torch.arange(mask.shape[-1], device=mask.device)
    # Unique keys, as transformers' ONNX exporter does not support a stable sort.
    return torch.where(mask, places, places + mask.shape[-1]).argsort(dim=-1)


def gather_tokens(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Gather states (B, L, F) at positions (B, N), which gives (B, N, F)."""
    return states.gather(1, tokens.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
