"""Local attention beside global attention, mixed by a gate: tensors in, tensors out.

Source: Improving BERT with Syntax-aware Local Attention (Li et al.), section 3, equations 1 and 3 to 6; the supervised
head is that of LISA (Strubell et al., 2018), to which the paper compares.

Shapes: B batch, L tokens, heads, D width of a head.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class LocalGate(nn.Linear):
    """The gate of each token's local attention: g = sigmoid(W h + b), shared by the heads (equation 5).

    The module is the linear part alone and maps states (B, L, H) to logits (B, L, 1), so that what replaces linear
    layers (quantization, LoRA) can replace it. The caller applies the sigmoid: 0 is all global, 1 is all local.

    Args:
        width: H, the width of the states.
    """

    def __init__(self, width: int):
        super().__init__(width, 1)


def gated_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    gate: torch.Tensor | None,
    mask: torch.Tensor | None,
    local_mask: torch.Tensor | None = None,
    *,
    scaling: float,
    dropout: float = 0.0,
    training: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Mix global and local attention, which are two softmaxes over the same scores (equations 1, 4 and 6).

    Args:
        query, key, value: (B, heads, L, D).
        gate: (B, L, 1), of each query token; the attention is global alone when absent.
        mask: (B, 1, L, L) of the global attention, added to the scores, or True where it may attend; none if absent.
        local_mask: likewise, of the local one.
        scaling: the factor of the scores, D ** -0.5.
        dropout: probability of each attention, for which it is drawn separately.
        training: whether there is dropout.

    Returns:
        The output (B, L, heads, D), the weights that made it (B, heads, L, L), and the local ones that went into them;
        all after dropout, if there is any.
    """
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    weights, local_weights = _softmax(scores, mask), None
    if gate is None:
        weights = functional.dropout(weights, p=dropout, training=training)
    else:
        local_weights = _softmax(scores, local_mask)
        if training and dropout:
            kept, local_kept = _two_draws(scores, dropout)
            weights, local_weights = weights * kept, local_weights * local_kept
        weights = mix(weights, local_weights, gate.unsqueeze(1))
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights, local_weights


def mix(of_all: torch.Tensor, local: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Equation 6, exact where both are equal and where the gate is 0 or 1; the gate has as many dimensions."""
    return torch.lerp(of_all, local, gate.to(of_all.dtype))


def parent_loss(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, parents: torch.Tensor, *, scaling: float
) -> torch.Tensor:
    """Cross-entropy of one head's attention against the tokens it should attend to (LISA).

    Args:
        query, key: (B, L, D), of that head.
        mask: (B, L), True at tokens that can be attended to; all when absent.
        parents: (B, L), the position that each token should attend to; -1 leaves it out.

    Returns:
        The mean over tokens; 0 if there are none.
    """
    scores = torch.matmul(query, key.transpose(1, 2)) * scaling
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), torch.finfo(scores.dtype).min)
        # Nothing can be learned from a parent that is not there, whose loss would drown all others.
        there = mask.gather(-1, parents.clamp(0, mask.shape[-1] - 1))
        parents = parents.masked_fill(~there | (parents >= mask.shape[-1]), -1)
    # At least in single precision, like the tasks' own losses.
    scores = scores.flatten(0, 1).to(torch.promote_types(scores.dtype, torch.float32))
    losses = functional.cross_entropy(scores, parents.flatten(), ignore_index=-1, reduction="sum")
    return losses / (parents >= 0).sum().clamp(min=1)


def _softmax(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
        if scores.dtype is torch.float16:  # the only type whose lowest value a score can push over the edge
            scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


@torch.no_grad()
def _two_draws(like: torch.Tensor, dropout: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two independent dropouts of that shape: 0, or 1 / (1 - dropout).

    Both come from one random number, which is uniform again within either outcome of the first draw: on a CPU drawing
    numbers is what dropout costs, and two layers of it cost more than all the rest of an attention.
    """
    keep = 1.0 - dropout
    if not keep:
        return torch.zeros_like(like), torch.zeros_like(like)
    number = torch.rand(like.shape, device=like.device)
    first = number < keep
    second = torch.where(first, number / keep, (number - keep) / dropout) < keep
    return first.to(like.dtype).div_(keep), second.to(like.dtype).div_(keep)
