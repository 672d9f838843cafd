"""The functions alpha (keys and values of pairs of tokens) and beta (query vectors) of orthogonal attention.

Source: Orthogonal Attention (Khandelwal and Attar), section 3.3.

Shapes: B batch, M context tokens, N query tokens, D width, k heads, d = D / k the width of a head, s = sqrt(d).

The input of alpha's last linear layer is linear in the features of the context token: these are multiplied by features
of the query token (em, emb), or convolved with filters from it (c, ca). Both steps together are one linear map for
each query token, and no tensor over pairs is needed before the keys and values.
"""

import math
from typing import NamedTuple, Self

import torch
from torch import nn
from transformers import initialization as init

from .configuration_oa_xlnet import OaXLNetConfig
from .fields_oa_xlnet import INTERACTIONS
from .masking import masked_softmax


class PairMaps(NamedTuple):
    """Keys or values of all pairs before they are computed, as a linear map for each query token.

    Args:
        features: (B, k, d, M), of the context tokens.
        weight: (B, k, N, d, d), of the maps, as [..., out, in].
        bias: (B, k, N, d), of the maps.
    """

    features: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor

    def split(self, size: int) -> list[Self]:
        """Split the context into chunks of tokens."""
        return [self._replace(features=features) for features in self.features.split(size, dim=-1)]

    def vectors(self) -> torch.Tensor:
        """Compute the keys or values (B, k, N, d, M)."""
        mapped = self.weight.flatten(2, 3) @ self.features
        # In place, as these are the largest tensors of the model and backward needs only the last one.
        return mapped.unflatten(2, self.bias.shape[2:]).add_(self.bias[..., None]).relu_()


class HeadwiseLinear(nn.Module):
    """A separate linear layer for each head, with weights (k, out, in) and biases (k, out)."""

    def __init__(self, num_heads: int, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, out_features, in_features))
        self.bias = nn.Parameter(torch.empty(num_heads, out_features)) if bias else None
        initialize(self)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map (B, N, k, in) to (B, N, k, out)."""
        mapped = torch.einsum("bnki,koi->bnko", states, self.weight)
        return mapped if self.bias is None else mapped + self.bias


class LastLinear(HeadwiseLinear):
    """The last linear layer of alpha, which `pair_maps` joins with the features of the query tokens."""

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]  # the weights are the output
        """Return weights (k, out, in) and biases (k, out). Offloaded ones are in memory only during a call."""
        assert self.bias is not None
        return self.weight, self.bias


def initialize(layer: nn.Linear | HeadwiseLinear) -> None:
    """Initialize a layer like `nn.Linear`, which preserves the scale of the input at any width."""
    bound = layer.weight.shape[-1] ** -0.5
    init.uniform_(layer.weight, -bound, bound)
    if layer.bias is not None:
        init.uniform_(layer.bias, -bound, bound)


def head_features(states: torch.Tensor, layer: nn.Linear, num_heads: int) -> torch.Tensor:
    """Project tokens (B, M, D) with a linear layer and ReLU, and split them into heads (B, k, d, M)."""
    return layer(states).relu().unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


class PairFeatures(nn.Module):
    """Base class of pair features, the input of alpha's last layer. `num_features` is their number in a head."""

    def __init__(self, config: OaXLNetConfig):
        super().__init__()
        self.size = config.encoder_size
        self.num_heads = config.block_heads
        self.num_features = self.size // self.num_heads
        self.context = nn.Linear(self.size, self.size)

    def context_features(self, context: torch.Tensor) -> torch.Tensor:
        """Map the context (B, M, D) to the features C1 of each head (B, k, d, M)."""
        return head_features(context, self.context, self.num_heads)

    def pair_maps(self, query: torch.Tensor, last: LastLinear) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weights and biases of `PairMaps`, from query tokens (B, N, D) and alpha's last layer."""
        raise NotImplementedError


class ElementwiseTrunk(PairFeatures):
    """Pair features as products of context and query features (OA-EM, OA-EMB)."""

    def __init__(self, config: OaXLNetConfig):
        super().__init__(config)
        self.query = nn.Linear(self.size, self.size)

    def pair_maps(self, query: torch.Tensor, last: LastLinear) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = last()
        features = self.query(query).relu().unflatten(-1, (self.num_heads, 1, -1)).transpose(1, 2)
        return weight[:, None] * features, bias[:, None].expand(*features.shape[:3], -1)


class ConvolutionTrunk(PairFeatures):
    """Pair features as convolutions of context features with filters from the query token (OA-C, OA-CA).

    Filters have size s and stride s, so that each gives s outputs, which are adjacent. Each query token and head has
    `conv_num_filters`: by default s, as in the paper's text; the printed equation has 1.
    """

    def __init__(self, config: OaXLNetConfig):
        super().__init__(config)
        self.width = math.isqrt(self.size // self.num_heads)
        self.num_filters = config.conv_num_filters or self.width
        self.num_features = self.num_filters * self.width
        self.filters = nn.Linear(self.size, self.num_heads * self.num_features)
        self.biases = nn.Linear(self.size, self.num_heads * self.num_filters)

    def pair_maps(self, query: torch.Tensor, last: LastLinear) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = last()
        filters = self.filters(query).unflatten(-1, (self.num_heads, self.num_filters, self.width))
        biases = self.biases(query).unflatten(-1, (self.num_heads, self.num_filters))
        weight = weight.unflatten(-1, (self.num_filters, self.width))  # [head, out, filter, place]
        maps = torch.einsum("kofp,bnkft->bknopt", weight, filters).flatten(-2)
        return maps, torch.einsum("kof,bnkf->bkno", weight.sum(-1), biases) + bias[:, None]


class PairInteraction(nn.Module):
    """The function alpha: keys and values of all pairs of a context token and a query token.

    With `kv_sharing="trunk"` keys and values share all but the last linear layer; with "none" nothing; with "all"
    values are equal to keys.
    """

    def __init__(self, config: OaXLNetConfig):
        super().__init__()
        heads = config.block_heads
        sharing = config.kv_sharing
        new_trunk = ALPHAS[INTERACTIONS[config.local_attention].alpha]
        self.trunk = new_trunk(config)
        self.value_trunk = new_trunk(config) if sharing == "none" else None
        sizes = heads, self.trunk.num_features, config.encoder_size // heads
        self.key = LastLinear(*sizes)
        self.value = None if sharing == "all" else LastLinear(*sizes)

    def forward(self, context: torch.Tensor, query: torch.Tensor) -> tuple[PairMaps, PairMaps | None]:
        """Return keys and values of context (B, M, D) and query (B, N, D). `None` stands for values equal to keys."""
        features = self.trunk.context_features(context)
        keys = PairMaps(features, *self.trunk.pair_maps(query, self.key))
        if self.value is None:
            return keys, None
        if self.value_trunk is None:
            return keys, PairMaps(features, *self.trunk.pair_maps(query, self.value))
        features = self.value_trunk.context_features(context)
        return keys, PairMaps(features, *self.value_trunk.pair_maps(query, self.value))


class DotAttention(nn.Module):
    """PyTorch-NLP's "dot" attention for each head, which summarizes the context for each query token.

    The summary is `tanh(W [mix; q])` with W without bias; or `mix`, if it is `plain`. `mix` is the mean of the context
    features, weighted by the softmax of their unscaled dot products with q.
    """

    def __init__(self, num_heads: int, head_size: int, plain: bool):
        super().__init__()
        self.output = None if plain else HeadwiseLinear(num_heads, 2 * head_size, head_size, bias=False)

    def forward(self, query: torch.Tensor, context: torch.Tensor, context_mask: torch.Tensor | None) -> torch.Tensor:
        """Map query features (B, N, k, d) and context features (B, k, d, M) to summaries (B, N, k, d).

        `context_mask` (B, M) is True at tokens, at least one in each row.
        """
        real = None if context_mask is None else context_mask[:, None, None]
        weights = masked_softmax(query.transpose(1, 2) @ context, real)
        mix = (weights @ context.transpose(-1, -2)).transpose(1, 2)
        return mix if self.output is None else self.output(torch.cat([mix, query], dim=-1)).tanh()


class QueryVectors(nn.Module):
    """The function beta of OA-EM and OA-C: a linear layer and ReLU."""

    def __init__(self, config: OaXLNetConfig):
        super().__init__()
        size = config.encoder_size
        self.num_heads = config.block_heads
        self.query = nn.Linear(size, size)

    def features(self, query: torch.Tensor) -> torch.Tensor:
        """Map query tokens (B, N, D) to the features of each head (B, N, k, d)."""
        return self.query(query).relu().unflatten(-1, (self.num_heads, -1))

    def forward(self, query: torch.Tensor, context: torch.Tensor, context_mask: torch.Tensor | None) -> torch.Tensor:
        """Map query tokens (B, N, D) to query vectors (B, N, k, d).

        The context is (B, M, D), or with `share_context_projection` alpha's features (B, k, d, M). Its mask (B, M) is
        True at tokens, at least one in each row.
        """
        return self.features(query)


class ContextualQueryVectors(QueryVectors):
    """The function beta of OA-EMB: the features of a query token times its summary of the context, linear layer, ReLU.

    With `share_context_projection` the context is alpha's features; by default it has a projection of its own.
    """

    def __init__(self, config: OaXLNetConfig):
        super().__init__(config)
        size = config.encoder_size
        self.head_size = size // self.num_heads
        self.context = None if config.share_context_projection else nn.Linear(size, size)
        self.attention = DotAttention(self.num_heads, self.head_size, config.query_summary == "plain")
        self.add_layers()

    def add_layers(self) -> None:
        """Add the layers that `combine` needs."""
        self.output = HeadwiseLinear(self.num_heads, self.head_size, self.head_size)

    def forward(self, query: torch.Tensor, context: torch.Tensor, context_mask: torch.Tensor | None) -> torch.Tensor:
        if self.context is not None:
            context = head_features(context, self.context, self.num_heads)
        features = self.features(query)
        return self.combine(features, self.attention(features, context, context_mask))

    def combine(self, features: torch.Tensor, summary: torch.Tensor) -> torch.Tensor:
        """Map features and summaries (B, N, k, d) to query vectors of the same shape."""
        return self.output(features * summary).relu()


class ConvolvedQueryVectors(ContextualQueryVectors):
    """The function beta of OA-CA: the features of a query token, convolved with filters from its summary."""

    def add_layers(self) -> None:
        self.width = math.isqrt(self.head_size)
        self.filters = HeadwiseLinear(self.num_heads, self.head_size, self.width * self.width)
        self.biases = HeadwiseLinear(self.num_heads, self.head_size, self.width)

    def combine(self, features: torch.Tensor, summary: torch.Tensor) -> torch.Tensor:
        filters = self.filters(summary).unflatten(-1, (self.width, self.width))  # [filter, tap]
        pieces = features.unflatten(-1, (self.width, self.width))  # [place, tap]
        return (filters @ pieces.transpose(-1, -2) + self.biases(summary)[..., None]).flatten(-2)


ALPHAS: dict[str, type[PairFeatures]] = {"product": ElementwiseTrunk, "convolution": ConvolutionTrunk}
"""Pair features of functions alpha by name."""

BETAS: dict[str, type[QueryVectors]] = {
    "query": QueryVectors,
    "product": ContextualQueryVectors,
    "convolution": ConvolvedQueryVectors,
}
"""Functions beta by name."""
