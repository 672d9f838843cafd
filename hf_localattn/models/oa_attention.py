"""Orthogonal attention: context tokens attend to query tokens, with keys and values for each pair.

Source: Orthogonal Attention (Khandelwal and Attar), sections 3.1 and 3.2.

Shapes: B batch, M context tokens, N query tokens, D width, k heads, d = D / k the width of a head.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_oa_xlnet import OaXLNetConfig
from .fields_oa_xlnet import INTERACTIONS
from .masking import argsort_mask_first, ensure_nonempty_mask, masked_mean, masked_softmax
from .oa_interaction import BETAS, PairInteraction, PairMaps


class OrthogonalAttention(nn.Module):
    """Multi-head orthogonal attention.

    Each head computes `C_i = sum_j softmax_j(K_ij . Q_j / sqrt(d)) V_ij`. The heads are concatenated and multiplied by
    W_D. The function alpha gives keys K and values V of pairs of a context token i and a query token j, and beta the
    query vectors Q. With one query token the softmax is always 1, and the gradient of beta is 0.

    With `oa_chunk_size` keys and values are computed for some context tokens at a time, and recomputed in the backward
    pass, with memory for (B, chunk, N, D) in place of (B, M, N, D), but for at least (B, N, D, d).
    """

    def __init__(self, config: OaXLNetConfig):
        super().__init__()
        size = config.encoder_size
        self.shares_context = config.share_context_projection
        self.interaction = PairInteraction(config)
        self.query_vectors = BETAS[INTERACTIONS[config.local_attention].beta](config)
        self.output = nn.Linear(size, size, bias=False)
        self.dropout = config.oa_dropout
        self.chunk_size = config.oa_chunk_size

    def forward(
        self,
        context: torch.Tensor,
        query: torch.Tensor,
        context_mask: torch.Tensor | None = None,
        query_mask: torch.Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Compute the attention Z (B, M, D) of context tokens (B, M, D) to query tokens (B, N, D).

        The masks (B, M) and (B, N) are True at tokens. With `output_attentions` the weights before dropout
        (B, k, M, N) are returned, too. Rows without query tokens get zeros.
        """
        keys, values = self.interaction(context, query)
        seen = keys.features if self.shares_context else context
        vectors = self.query_vectors(query, seen, ensure_nonempty_mask(context_mask))
        vectors = vectors.transpose(1, 2) * vectors.shape[-1] ** -0.5

        if self.chunk_size is None:
            mixed, weights = self._attend(vectors, query_mask, keys, values)
        else:
            recomputed = partial(checkpoint, self._attend, use_reentrant=False)
            attend = recomputed if torch.is_grad_enabled() else self._attend
            key_chunks = keys.split(self.chunk_size)
            value_chunks = [None] * len(key_chunks) if values is None else values.split(self.chunk_size)
            parts = [attend(vectors, query_mask, *chunk) for chunk in zip(key_chunks, value_chunks, strict=True)]
            mixed, weights = (torch.cat(chunks, dim=-1) for chunks in zip(*parts, strict=True))
        mixed = self.output(mixed.permute(0, 3, 1, 2).flatten(-2))
        return mixed, weights.transpose(-1, -2) if output_attentions else None

    def _attend(
        self, vectors: torch.Tensor, query_mask: torch.Tensor | None, keys: PairMaps, values: PairMaps | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weighted sums of values (B, k, d, M) and the weights (B, k, N, M) for query vectors (B, k, N, d)."""
        key = keys.vectors()
        real = None if query_mask is None else query_mask[:, None, :, None]
        weights = masked_softmax((vectors.unsqueeze(-2) @ key).squeeze(-2), real, dim=2)
        dropped = functional.dropout(weights, self.dropout, self.training)
        value = key if values is None else values.vectors()
        return (value * dropped.unsqueeze(-2)).sum(2), weights


class SelfAttention(nn.Module):
    """Multi-head scaled dot-product self-attention, with an output layer without bias (section 2.3)."""

    def __init__(self, size: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size, bias=False)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Map (B, M, D) to the same shape. `mask` (B, M) is True at tokens to attend to, at least one in each row."""
        query, key, value = (
            layer(states).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        allowed = None if mask is None else mask[:, None, None]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class OrthogonalAttentionBlock(GradientCheckpointingLayer):
    """Encoder block of section 3.1: orthogonal attention, self-attention and two linear layers.

    `X2 = LN(MHOA(C, Q) + C)`, `X4 = W2 ReLU(W SelfAttention(X2) + b)`, `C' = LN(X4 + X2)`. As printed in the paper,
    the self-attention has no residual and W2 has no bias.
    """

    def __init__(self, config: OaXLNetConfig):
        super().__init__()
        size = config.encoder_size
        intermediate_size = config.oa_intermediate_size or size
        self.attention = OrthogonalAttention(config)
        self.attention_norm = nn.LayerNorm(size)
        self.self_attention = SelfAttention(size, config.block_heads)
        self.intermediate = nn.Linear(size, intermediate_size)
        self.output = nn.Linear(intermediate_size, size, bias=False)
        self.output_norm = nn.LayerNorm(size)

    def forward(
        self,
        context: torch.Tensor,
        query: torch.Tensor,
        context_mask: torch.Tensor | None = None,
        query_mask: torch.Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run the block. Takes and returns the same as `OrthogonalAttention.forward`, with C' in place of Z."""
        attended, weights = self.attention(context, query, context_mask, query_mask, output_attentions)
        states = self.attention_norm(attended + context)
        exchanged = self.self_attention(states, ensure_nonempty_mask(context_mask))
        return self.output_norm(self.output(self.intermediate(exchanged).relu()) + states), weights


def query_positions(query_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the positions (B, N) of the query tokens, True in a mask (B, L), and a mask (B, N), False at padding.

    Positions are in text order. N is the largest number of query tokens in a row, and at least 1. N is L in compiled
    models, since sizes cannot depend on data there.
    """
    order = argsort_mask_first(query_mask)
    if torch.compiler.is_exporting() or not torch.compiler.is_compiling():
        size = query_mask.sum(-1).max().clamp(min=1).item()
        torch._check(size >= 1)
        torch._check(size <= order.shape[1])
        order = order[:, :size]
    return order, query_mask.gather(1, order)


def add_text(
    query: torch.Tensor, query_mask: torch.Tensor, context: torch.Tensor, context_mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add the mean of the context (B, M, D) to the query tokens (B, N, D) and to their mask (B, N), as a last token.

    Rows without query tokens stay without one. A copy of a token in place of the mean would not train beta: with equal
    values, the weights of the softmax do not matter.
    """
    text = masked_mean(context, ensure_nonempty_mask(context_mask))
    mask = torch.cat([query_mask, query_mask.any(-1, keepdim=True)], dim=-1)
    return torch.cat([query, text.unsqueeze(1)], dim=1), mask
