"""Attention by blocks of queries, whose memory grows with the length and not with its square.

The backward pass recomputes each block, with the same dropout. Masks are computed for one block at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint
from transformers.utils import is_tracing

from .sla_masks import MaskRows

ROWS = 128
"""Queries in a block. Texts that fit into one block are not split."""


def is_split(states: torch.Tensor, implementation: str) -> bool:
    """Return True if attention runs by blocks.

    Compiled code needs whole masks and weights. GPUs have kernels that keep no weights.

    Args:
        states: (B, L) or (B, L, H), an input of the model.
        implementation: The attention implementation.
    """
    if is_tracing() or torch._C._are_functorch_transforms_active():
        return False
    return implementation in ("eager", "sdpa") and states.device.type == "cpu" and states.shape[1] > ROWS


def attend_by_blocks(
    attend: Callable[..., torch.Tensor],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    gate: torch.Tensor,
    mask: torch.Tensor | None,
    local_rows: MaskRows,
) -> torch.Tensor:
    """Compute gated attention for one block of queries after the other.

    Args:
        attend: Function from queries (B, heads, R, D), all keys and values, the gates and two masks of these queries
            to the output (B, R, heads, D).
        query: (B, heads, L, D).
        key: (B, heads, L, D).
        value: (B, heads, L, D).
        gate: (B, L, 1).
        mask: (B, 1, L, L) or (B, 1, 1, L), mask of global attention. If None, all tokens are allowed.
        local_rows: Function that computes rows of the mask of local attention.

    Returns:
        The output (B, L, heads, D).
    """

    def block(
        number: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, gate: torch.Tensor
    ) -> torch.Tensor:
        rows = slice(number * ROWS, (number + 1) * ROWS)
        in_rows = mask if mask is None or mask.shape[2] == 1 else mask[:, :, rows]
        return attend(query, key, value, gate, in_rows, local_rows(rows).unsqueeze(1))

    key, value = key.contiguous(), value.contiguous()  # once for all blocks
    parts = enumerate(zip(query.split(ROWS, dim=2), gate.split(ROWS, dim=1), strict=True))
    if torch.is_grad_enabled():
        outputs = [
            checkpoint(block, number, queries, key, value, gates, use_reentrant=False)
            for number, (queries, gates) in parts
        ]
    else:
        outputs = [block(number, queries, key, value, gates) for number, (queries, gates) in parts]
    return torch.cat(outputs, dim=1)
