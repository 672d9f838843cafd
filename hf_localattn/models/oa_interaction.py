"""The functions alpha and beta of orthogonal attention: keys and values of every pair of tokens, and query vectors.

Source: Orthogonal Attention: A Cloze-Style Approach to Negation Scope Resolution (Khandelwal and Attar), section 3.3.

Shapes: B batch, M context tokens, N query tokens, D width, k heads, d = D / k the width of a head, s = sqrt(d).

The last linear layer of alpha always reads something linear in the context token: the context features times those of
the query token (em, emb), or convolved with filters that the query token gives (c, ca). Both steps together are one
linear map for each query token, so that no tensor of the pairs is built before the keys and values themselves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn
from transformers import initialization as init

from .masking import masked_softmax

CONVOLUTIONAL = ("c", "ca")
BIDIRECTIONAL = ("emb", "ca")
"""Interactions whose query vectors have seen the context."""
INTERACTIONS = ("em", "emb", "c", "ca")
KV_SHARING = ("trunk", "none", "all")
QUERY_SUMMARIES = ("tanh", "plain")


class PairMaps(NamedTuple):
    """Keys, or values, of all pairs, not yet computed: each query token's map of the context's features.

    Args:
        features: of the context tokens (B, k, d, M).
        weight: (B, k, N, d, d), as [..., out, in].
        bias: (B, k, N, d).
    """

    features: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor

    def vectors(self) -> torch.Tensor:
        """Compute them: (B, k, N, d, M)."""
        mapped = self.weight.flatten(2, 3) @ self.features
        # In place: of these, the largest tensors there are, backward needs the last one alone.
        return mapped.unflatten(2, self.bias.shape[2:]).add_(self.bias[..., None]).relu_()


class HeadwiseLinear(nn.Module):
    """A linear layer for each head: weights (k, out, in), biases (k, out)."""

    def __init__(self, num_heads: int, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, out_features, in_features))
        self.bias = nn.Parameter(torch.empty(num_heads, out_features)) if bias else None
        initialize(self)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map (B, N, k, in) to (B, N, k, out)."""
        mapped = torch.einsum("bnki,koi->bnko", states, self.weight)
        return mapped if self.bias is None else mapped + self.bias


def initialize(layer: nn.Linear | HeadwiseLinear) -> None:
    """Start a layer as torch starts its linear ones: whatever the width, the scale of the input is kept."""
    bound = layer.weight.shape[-1] ** -0.5
    init.uniform_(layer.weight, -bound, bound)
    if layer.bias is not None:
        init.uniform_(layer.bias, -bound, bound)


def head_features(states: torch.Tensor, layer: nn.Linear, num_heads: int) -> torch.Tensor:
    """A linear layer and ReLU over tokens (B, M, D), by heads: (B, k, d, M)."""
    return layer(states).relu().unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


class ElementwiseTrunk(nn.Module):
    """Features of pairs: those of the context token times those of the query token (OA-EM, OA-EMB).

    Args:
        size: D.
        num_heads: k.
    """

    def __init__(self, size: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.context = nn.Linear(size, size)
        self.query = nn.Linear(size, size)
        self.num_features = size // num_heads

    def context_features(self, context: torch.Tensor) -> torch.Tensor:
        """C1 of the equations, for each head: (B, M, D) to (B, k, d, M)."""
        return head_features(context, self.context, self.num_heads)

    def pair_maps(self, query: torch.Tensor, last: HeadwiseLinear) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each query token's map from context features to what the last layer of alpha makes of the pair.

        Args:
            query: (B, N, D).
            last: this layer.

        Returns:
            Weights (B, k, N, d, d), as [..., out, in], and biases (B, k, N, d).
        """
        assert last.bias is not None
        features = self.query(query).relu().unflatten(-1, (self.num_heads, 1, -1)).transpose(1, 2)
        return last.weight[:, None] * features, last.bias[:, None].expand(*features.shape[:3], -1)


class ConvolutionTrunk(nn.Module):
    """Features of pairs: those of the context token, convolved with filters that the query token gives (OA-C, OA-CA).

    A filter is s wide and moves by s, so that it gives s numbers. The numbers of one filter lie side by side.

    Args:
        size: D.
        num_heads: k.
        num_filters: how many filters a query token gives each head; s when absent, as the text has it (the equation
            as printed has one).
    """

    def __init__(self, size: int, num_heads: int, num_filters: int | None = None):
        super().__init__()
        self.num_heads = num_heads
        self.width = math.isqrt(size // num_heads)
        self.num_filters = num_filters or self.width
        self.context = nn.Linear(size, size)
        self.filters = nn.Linear(size, num_heads * self.num_filters * self.width)
        self.biases = nn.Linear(size, num_heads * self.num_filters)
        self.num_features = self.num_filters * self.width

    def context_features(self, context: torch.Tensor) -> torch.Tensor:
        """C1 of the equations, for each head: (B, M, D) to (B, k, d, M)."""
        return head_features(context, self.context, self.num_heads)

    def pair_maps(self, query: torch.Tensor, last: HeadwiseLinear) -> tuple[torch.Tensor, torch.Tensor]:
        """As `ElementwiseTrunk.pair_maps`."""
        assert last.bias is not None
        filters = self.filters(query).unflatten(-1, (self.num_heads, self.num_filters, self.width))
        biases = self.biases(query).unflatten(-1, (self.num_heads, self.num_filters))
        weight = last.weight.unflatten(-1, (self.num_filters, self.width))  # [head, out, filter, place]
        maps = torch.einsum("kofp,bnkft->bknopt", weight, filters).flatten(-2)
        return maps, torch.einsum("kof,bnkf->bkno", weight.sum(-1), biases) + last.bias[:, None]


class PairInteraction(nn.Module):
    """Alpha: the keys and values of all pairs of a context and a query token, as maps of the context's features.

    Args:
        size: D.
        num_heads: k.
        convolutional: whether pairs interact by convolution, not element by element.
        num_filters: of `ConvolutionTrunk`.
        kv_sharing: what keys and values have in common: "trunk", all but the last linear layer; "none", nothing;
            "all", everything, so that they are the same.
    """

    def __init__(self, size: int, num_heads: int, convolutional: bool, num_filters: int | None, kv_sharing: str):
        super().__init__()
        head_size = size // num_heads

        def new_trunk() -> ElementwiseTrunk | ConvolutionTrunk:
            if convolutional:
                return ConvolutionTrunk(size, num_heads, num_filters)
            return ElementwiseTrunk(size, num_heads)

        self.trunk = new_trunk()
        self.value_trunk = new_trunk() if kv_sharing == "none" else None
        self.key = HeadwiseLinear(num_heads, self.trunk.num_features, head_size)
        self.value = None if kv_sharing == "all" else HeadwiseLinear(num_heads, self.trunk.num_features, head_size)

    def forward(self, context: torch.Tensor, query: torch.Tensor) -> tuple[PairMaps, PairMaps | None]:
        """Return the keys and the values (None: the same as the keys) of context (B, M, D) and query (B, N, D)."""
        features = self.trunk.context_features(context)
        keys = PairMaps(features, *self.trunk.pair_maps(query, self.key))
        if self.value is None:
            return keys, None
        if self.value_trunk is None:
            return keys, PairMaps(features, *self.trunk.pair_maps(query, self.value))
        features = self.value_trunk.context_features(context)
        return keys, PairMaps(features, *self.value_trunk.pair_maps(query, self.value))


class DotAttention(nn.Module):
    """PyTorch-NLP's "dot" attention, for each head: a summary of the context for each query token.

    `tanh(W [mix; q])`, where mix is the mean of the context's features, weighted by the softmax of their unscaled
    products with q, and W has no bias.

    Args:
        num_heads: k.
        head_size: d.
        plain: leave the rest out and give mix itself.
    """

    def __init__(self, num_heads: int, head_size: int, plain: bool = False):
        super().__init__()
        self.output = None if plain else HeadwiseLinear(num_heads, 2 * head_size, head_size, bias=False)

    def forward(self, query: torch.Tensor, context: torch.Tensor, context_mask: torch.Tensor | None) -> torch.Tensor:
        """Map query features (B, N, k, d) and context features (B, k, d, M) to summaries (B, N, k, d).

        `context_mask` is (B, M), True at real tokens, of which each row has one.
        """
        real = None if context_mask is None else context_mask[:, None, None]
        weights = masked_softmax(query.transpose(1, 2) @ context, real)
        mix = (weights @ context.transpose(-1, -2)).transpose(1, 2)
        return mix if self.output is None else self.output(torch.cat([mix, query], dim=-1)).tanh()


class QueryVectors(nn.Module):
    """Beta of OA-EM and OA-C: a linear layer and ReLU."""

    def __init__(self, size: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(size, size)

    def forward(self, query: torch.Tensor) -> torch.Tensor:
        """Map query tokens (B, N, D) to query vectors (B, N, k, d)."""
        return self.query(query).relu().unflatten(-1, (self.num_heads, -1))


class ContextualQueryVectors(QueryVectors):
    """Beta of OA-EMB and OA-CA: query vectors that have seen a summary of the context.

    The summary multiplies the query's features, and a linear layer and ReLU follow (OA-EMB), or it gives the filters
    of a convolution of the query's features, which is the query vector (OA-CA).

    Args:
        size: D.
        num_heads: k.
        convolutional: OA-CA.
        plain: of `DotAttention`.
        owns_context: whether there is a linear layer for the context's features, or those of alpha are given.
    """

    def __init__(self, size: int, num_heads: int, convolutional: bool, plain: bool, owns_context: bool):
        super().__init__(size, num_heads)
        head_size = size // num_heads
        self.context = nn.Linear(size, size) if owns_context else None
        self.attention = DotAttention(num_heads, head_size, plain)
        self.width = math.isqrt(head_size)
        if convolutional:
            self.filters = HeadwiseLinear(num_heads, head_size, self.width * self.width)
            self.biases = HeadwiseLinear(num_heads, head_size, self.width)
            self.output = None
        else:
            self.output = HeadwiseLinear(num_heads, head_size, head_size)

    def forward(  # type: ignore[override]  # unlike the base's query vectors these have seen the context
        self, query: torch.Tensor, context: torch.Tensor, context_mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Map query tokens (B, N, D) to query vectors (B, N, k, d).

        `context` is (B, M, D), or alpha's features (B, k, d, M) without a layer of our own; `context_mask` (B, M).
        """
        if self.context is not None:
            context = head_features(context, self.context, self.num_heads)
        features = super().forward(query)
        summary = self.attention(features, context, context_mask)
        if self.output is not None:
            return self.output(features * summary).relu()
        filters = self.filters(summary).unflatten(-1, (self.width, self.width))  # [filter, tap]
        pieces = features.unflatten(-1, (self.width, self.width))  # [place, tap]
        return (filters @ pieces.transpose(-1, -2) + self.biases(summary)[..., None]).flatten(-2)
