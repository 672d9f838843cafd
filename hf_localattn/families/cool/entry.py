"""Entry of COOL, the context outlooker."""

from __future__ import annotations

from itertools import product

import torch

from hf_localattn.families.family import Family, View
from hf_localattn.models import CoolConfig


def outlook_attention_matrix(weights: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Reduce outlook weights to one token-to-token map, averaged over heads.

    Args:
        weights: (B, L, K, K, N) as in `local_attentions`, [central token, target, source, head].
        mask: (B, L), True at tokens and False at padding. By default all are tokens.

    Returns:
        (B, L, L) as [target token, source token]. If the softmax is per head, a row sums to the number of windows that
        write to its token, minus their weights outside the sequence and at padding.
    """
    batch, length, window, _, _ = weights.shape
    half = window // 2
    weights = weights.mean(-1)
    padded = weights.new_zeros(batch, length + 2 * half, length + 2 * half)
    center = torch.arange(length, device=weights.device)
    for target, source in product(range(window), repeat=2):
        padded[:, center + target, center + source] += weights[:, :, target, source]
    matrix = padded[:, half : half + length, half : half + length]
    return matrix if mask is None else matrix.masked_fill(~mask.to(torch.bool)[:, None, :], 0.0)


FAMILY = Family(
    config=CoolConfig,
    modules=("cool_baselines", "cool_baselines_generation"),
    local_map=View(
        is_available=lambda config: config.local_attention == "outlook" and config.num_active_local_layers > 0,
        settings="local_attention=outlook",
        title="outlook attention",
        matrix=outlook_attention_matrix,
    ),
)
