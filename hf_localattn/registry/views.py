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
