"""Orthogonal attention: every context token attends over the query tokens, with keys and values of its own for each.

Source: Orthogonal Attention: A Cloze-Style Approach to Negation Scope Resolution (Khandelwal and Attar), sections 3.1
and 3.2.

Shapes: B batch, M context tokens, N query tokens, D width, k heads, d = D / k the width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from .masking import argsort_mask_first, ensure_nonempty_mask, masked_softmax
from .oa_interaction import (
    BIDIRECTIONAL,
    CONVOLUTIONAL,
    INTERACTIONS,
    KV_SHARING,
    QUERY_SUMMARIES,
    ContextualQueryVectors,
    HeadwiseLinear,
    PairInteraction,
    PairMaps,
    QueryVectors,
    initialize,
)


class OrthogonalAttention(nn.Module):
    """`C_i = sum_j softmax_j(K_ij . Q_j / sqrt(d)) V_ij` for each head, the heads side by side, times W_D.

    Keys K and values V belong to pairs of a context token i and a query token j (alpha), query vectors Q to query
    tokens (beta). With one query token the softmax is the constant 1, and beta has a gradient of zero.

    Args:
        size: D.
        num_heads: k, which divides it.
        interaction: "em", "emb", "c" or "ca": how pairs interact, and whether query vectors have seen the context.
        kv_sharing: of `PairInteraction`: "trunk", "none" or "all".
        share_context_projection: let beta of "emb" and "ca" use alpha's features of the context (alpha's keys').
        conv_num_filters: of alpha's convolution, for "c" and "ca"; sqrt(d) when absent.
        query_summary: "tanh", or "plain", which leaves out its output layer.
        dropout: of the weights.
        chunk_size: compute keys and values for so many context tokens at a time, and again in the backward pass. The
            result is the same; the memory for (B, M, N, D) becomes that for (B, chunk_size, N, D). Chunks below d
            save no more, as the maps of the query tokens are (B, N, D, d).

    Raises:
        ValueError: the heads do not divide the width, or d is no square for the convolutional variants; an option
            is not one of those named.
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        interaction: str = "emb",
        kv_sharing: str = "trunk",
        share_context_projection: bool = False,
        conv_num_filters: int | None = None,
        query_summary: str = "tanh",
        dropout: float = 0.0,
        chunk_size: int | None = None,
    ):
        super().__init__()
        check_heads(size, num_heads, interaction)
        for option, value, choices in (
            ("interaction", interaction, INTERACTIONS),
            ("kv_sharing", kv_sharing, KV_SHARING),
            ("query_summary", query_summary, QUERY_SUMMARIES),
        ):
            if value not in choices:
                raise ValueError(f"`{option}` is {value!r}; choose one of {', '.join(map(repr, choices))}.")
        convolutional, bidirectional = interaction in CONVOLUTIONAL, interaction in BIDIRECTIONAL
        self.interaction = PairInteraction(size, num_heads, convolutional, conv_num_filters, kv_sharing)
        self.query_vectors: QueryVectors = (
            ContextualQueryVectors(
                size, num_heads, convolutional, query_summary == "plain", not share_context_projection
            )
            if bidirectional
            else QueryVectors(size, num_heads)
        )
        self.is_bidirectional = bidirectional
        self.shares_context = bidirectional and share_context_projection
        self.output = nn.Linear(size, size, bias=False)
        self.dropout = dropout
        self.chunk_size = chunk_size

    def forward(
        self,
        context: torch.Tensor,
        query: torch.Tensor,
        context_mask: torch.Tensor | None = None,
        query_mask: torch.Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return Z (B, M, D), and with `output_attentions` the weights (B, k, M, N), before dropout.

        Args:
            context: (B, M, D).
            query: (B, N, D).
            context_mask: (B, M), True at real tokens; all are when absent.
            query_mask: (B, N), likewise; a row without any has Z = 0 and weights of 0.
        """
        keys, values = self.interaction(context, query)
        if self.is_bidirectional:
            seen = keys.features if self.shares_context else context
            vectors = self.query_vectors(query, seen, ensure_nonempty_mask(context_mask))
        else:
            vectors = self.query_vectors(query)
        vectors = vectors.transpose(1, 2) * vectors.shape[-1] ** -0.5

        if self.chunk_size is None:
            mixed, weights = self._attend(vectors, query_mask, keys, values)
        else:
            both = (keys, values or keys)
            chunks = zip(*(pairs.features.split(self.chunk_size, dim=-1) for pairs in both), strict=True)
            parts = [self._recomputed(vectors, query_mask, keys, values, *features) for features in chunks]
            mixed, weights = (torch.cat(one, dim=-1) for one in zip(*parts, strict=True))
        mixed = self.output(mixed.permute(0, 3, 1, 2).flatten(-2))
        return mixed, weights.transpose(-1, -2) if output_attentions else None

    def _attend(
        self, vectors: torch.Tensor, query_mask: torch.Tensor | None, keys: PairMaps, values: PairMaps | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weighted sums (B, k, d, M) of values, and the weights (B, k, N, M); query vectors are (B, k, N, d)."""
        key = keys.vectors()
        real = None if query_mask is None else query_mask[:, None, :, None]
        weights = masked_softmax((vectors.unsqueeze(-2) @ key).squeeze(-2), real, dim=2)
        dropped = functional.dropout(weights, self.dropout, self.training)
        value = key if values is None else values.vectors()
        return (value * dropped.unsqueeze(-2)).sum(2), weights

    def _recomputed(
        self,
        vectors: torch.Tensor,
        query_mask: torch.Tensor | None,
        keys: PairMaps,
        values: PairMaps | None,
        key_features: torch.Tensor,
        value_features: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`_attend` for some context tokens, whose keys and values backward computes again."""
        keys = keys._replace(features=key_features)
        values = values and values._replace(features=value_features)
        if not torch.is_grad_enabled():
            return self._attend(vectors, query_mask, keys, values)
        return checkpoint(self._attend, vectors, query_mask, keys, values, use_reentrant=False)


class SelfAttention(nn.Module):
    """Scaled dot-product self-attention with several heads; its output layer has no bias (section 2.3)."""

    def __init__(self, size: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size, bias=False)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Map (B, M, D) to the same shape; `mask` (B, M) is True at tokens to attend to, of which each row has one."""
        query, key, value = (
            layer(states).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        allowed = None if mask is None else mask[:, None, None]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class OrthogonalAttentionBlock(GradientCheckpointingLayer):
    """The encoder block of section 3.1: orthogonal attention, self-attention, two linear layers.

    `X2 = LN(MHOA(C, Q) + C)`, `X4 = W2 ReLU(W SelfAttention(X2) + b)`, `C' = LN(X4 + X2)`. As printed there is no
    residual around the self-attention, and no bias to W2.

    Args:
        size: D.
        num_heads: of both attentions.
        intermediate_size: width between the linear layers.
        **attention: further arguments of `OrthogonalAttention`.
    """

    def __init__(self, size: int, num_heads: int, intermediate_size: int, **attention: Any):
        super().__init__()
        self.attention = OrthogonalAttention(size, num_heads, **attention)
        self.attention_norm = nn.LayerNorm(size)
        self.self_attention = SelfAttention(size, num_heads)
        self.intermediate = nn.Linear(size, intermediate_size)
        self.output = nn.Linear(intermediate_size, size, bias=False)
        self.output_norm = nn.LayerNorm(size)

    def initialize(self) -> None:
        """Give all layers their first values; `_init_weights` calls it."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear | HeadwiseLinear):
                initialize(layer)

    def forward(
        self,
        context: torch.Tensor,
        query: torch.Tensor,
        context_mask: torch.Tensor | None = None,
        query_mask: torch.Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As `OrthogonalAttention.forward`, with C' (B, M, D) in place of Z."""
        attended, weights = self.attention(context, query, context_mask, query_mask, output_attentions)
        states = self.attention_norm(attended + context)
        exchanged = self.self_attention(states, ensure_nonempty_mask(context_mask))
        return self.output_norm(self.output(self.intermediate(exchanged).relu()) + states), weights


def query_positions(query_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where the query tokens of a batch are, and which of these places are real.

    Args:
        query_mask: (B, L), True at query tokens.

    Returns:
        Positions (B, N) in the order of the text and a mask (B, N), N being the most that a row has, at least 1. In a
        compiled or exported graph, where a size cannot depend on the data, N is L.
    """
    order = argsort_mask_first(query_mask)
    if not torch.compiler.is_compiling():
        order = order[:, : max(int(query_mask.sum(-1).max()), 1)]
    return order, query_mask.gather(1, order)


def possible_heads(size: int, interaction: str) -> list[int]:
    """Return the numbers of heads that divide the width; for "c" and "ca" those whose width is a square."""
    small = [heads for heads in range(1, math.isqrt(size) + 1) if size % heads == 0]
    divisors = sorted({*small, *(size // heads for heads in small)})
    if interaction not in CONVOLUTIONAL:
        return divisors
    return [heads for heads in divisors if math.isqrt(size // heads) ** 2 == size // heads]


def check_heads(size: int, num_heads: int, interaction: str) -> None:
    """Raise `ValueError` if heads do not divide the width, or if their width is no square for "c" or "ca"."""
    possible = possible_heads(size, interaction)
    if num_heads in possible:
        return
    problem = f"does not divide the width {size}"
    if size % num_heads == 0:
        problem = (
            f"makes heads {size // num_heads} wide, which is not a square: {interaction!r} convolves them with as many"
            " filters as these are wide"
        )
    raise ValueError(f"`oa_num_heads` is {num_heads}, which {problem}. Take one of {', '.join(map(str, possible))}.")
