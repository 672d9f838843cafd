"""Views of a family's attention, for inspection, in terms common to all families."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Query:
    """An input that marks the tokens of a query, such as a question or a cue.

    Attributes:
        input: Name of the input, (B, L), nonzero at the tokens of the query.
        remedy: Advice for errors about a text without a query.
        warning: Warning for training data without any query.
    """

    input: str
    remedy: str
    warning: str


@dataclass(frozen=True)
class View:
    """A kind of attention weights that some configurations of a family have.

    Attributes:
        is_available: Function from a configuration to True if its models have the weights.
        settings: Description of the fields that enable the weights, for error messages.
    """

    is_available: Callable[[Any], bool]
    settings: str


def mean_over_heads(weights: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean over heads of weights (B, heads, rows, columns), as float64."""
    return weights.double().mean(1)


@dataclass(frozen=True)
class LocalMap(View):
    """Local attention between tokens, from `local_attentions` of a model's output.

    Attributes:
        title: Name of this attention.
        by_default: True if this map is shown by default instead of the encoder's self-attention.
        query: Input that marks the tokens of the columns. The columns are these tokens in order, then padding. None if
            the columns are all tokens.
        matrix: Function from the weights of a layer and the padding mask (B, L) to a matrix (B, L, columns).
    """

    title: str
    by_default: bool = True
    query: Query | None = None
    matrix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = mean_over_heads


@dataclass(frozen=True)
class Gates(View):
    """Shares of local attention, from `gates` of a model's output.

    Attributes:
        layers: Function from a configuration to the indices of the layers with gates, from 0.
    """

    layers: Callable[[Any], Sequence[int]]


def outlook_attention_matrix(weights: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Reduce outlook weights to one token-to-token map, averaged over heads.

    Args:
        weights: (B, L, K, K, N) as in `local_attentions`, [central token, target, source, head].
        mask: (B, L), True at tokens and False at padding. By default all are tokens.

    Returns:
        (B, L, L) as [target token, source token]. If the softmax is per head, a row sums to the number of windows that
        write to its token, minus their weights outside the sequence and at padding.

    Raises:
        ValueError: The weights do not have five dimensions.
    """
    if weights.dim() != 5:
        raise ValueError(
            f"`weights` has shape {tuple(weights.shape)}; outlook weights are (batch, length, window, window, heads). "
            "Use the weights of a model with `local_attention='outlook'`."
        )
    batch, length, window, _, _ = weights.shape
    half = window // 2
    weights = weights.mean(-1)
    padded = weights.new_zeros(batch, length + 2 * half, length + 2 * half)
    center = torch.arange(length, device=weights.device)
    for target in range(window):
        for source in range(window):
            padded[:, center + target, center + source] += weights[:, :, target, source]
    matrix = padded[:, half : half + length, half : half + length]
    return matrix if mask is None else matrix.masked_fill(~mask.to(torch.bool)[:, None, :], 0.0)
