"""Attention by blocks of queries, whose memory grows with the length and not with its square.

The backward pass recomputes each block, with the same dropout. Masks are computed for one block at a time.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint
from transformers.utils import is_tracing

from .sla_masks import MaskRows

ROWS = 128
"""Queries in a block. Texts that fit into one block are not split."""


def is_split(states: torch.Tensor, implementation: str) -> bool:
    """Return True if attention runs by blocks.

    Compiled code needs whole masks and weights. GPUs have kernels that keep no weights.
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
    """Compute gated attention (B, L, heads, D) for one block of queries after the other.

    `attend` maps queries (B, heads, R, D), all keys and values (B, heads, L, D), the gates (B, R, 1) and the two masks
    of these queries to the output (B, R, heads, D). The global `mask` is (B, 1, L, L), (B, 1, 1, L) or None.
    """

    def block(
        index: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, gate: torch.Tensor
    ) -> torch.Tensor:
        rows = slice(index * ROWS, (index + 1) * ROWS)
        in_rows = mask if mask is None or mask.shape[2] == 1 else mask[:, :, rows]
        return attend(query, key, value, gate, in_rows, local_rows(rows).unsqueeze(1))

    key = key.contiguous()  # once for all blocks
    value = value.contiguous()
    parts = enumerate(zip(query.split(ROWS, dim=2), gate.split(ROWS, dim=1), strict=True))
    run = partial(checkpoint, block, use_reentrant=False) if torch.is_grad_enabled() else block
    return torch.cat([run(index, queries, key, value, gates) for index, (queries, gates) in parts], dim=1)
