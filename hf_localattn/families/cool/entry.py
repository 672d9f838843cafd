"""Entry of COOL, the context outlooker."""

from __future__ import annotations

from itertools import product

import torch

from hf_localattn.families.family import Family, View
from hf_localattn.models import CoolConfig
from hf_localattn.models.configuration_cool import BASELINES


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
    local_map=View(
        is_available=lambda config: config.local_attention == "outlook" and config.num_active_local_layers > 0,
        settings="local_attention=outlook",
        title="outlook attention",
        matrix=outlook_attention_matrix,
    ),
    effects=lambda config: {
        (
            "outlook_num_heads",
            "outlook_softmax",
            "mask_outside_window",
            "outlook_dropout",
            "use_conv",
            "num_ffn_layers",
            "use_layer_norm",
            "qkv_bias",
        ): config.local_attention == "outlook",
        ("fusion",): config.mode == "g&l" or config.has_balance,
        ("num_extra_layers",): config.local_attention == "deeper",
        ("graph_window",): config.local_attention in ("rgcn", "gat", "hgt"),
        ("outlook_kernel_size",): config.local_attention in ("outlook", "dynamic_conv", "visual_outlook"),
        ("num_local_layers",): config.local_attention in ("outlook", *BASELINES),
        ("conv_filters", "conv_pooling", "conv_alignment"): config.has_convolution_block,
    },
    tiny_fields={"conv_filters": 5, "classifier_dropout": 0.0},
    ablations=(
        {"num_local_layers": 1},
        {"mode": "l2g"},
        {"mode": "g&l", "fusion": "gate"},
        {"fusion": "gate"},
        {"use_conv": False},
        *({"local_attention": name} for name in ("none", "deeper", "conv", "dynamic_conv", "visual_outlook")),
        *({"local_attention": name} for name in ("rgcn", "gat", "hgt")),
    ),
)
