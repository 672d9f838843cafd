"""Views of a family's attention: what inspection can show, in terms that all families share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Query:
    """An input that marks the tokens of a text which are asked about.

    Attributes:
        input: its name; (B, L), not 0 at the tokens of the query.
        remedy: how a text gets a query, for errors about a text without one.
        warning: what training data without any query mean, and what to do.
    """

    input: str
    remedy: str
    warning: str


@dataclass(frozen=True)
class View:
    """A kind of attention weights that some models of a family have.

    Attributes:
        is_available: tells from a configuration if its models have these weights.
        settings: the fields with which they do, in words, for error messages.
    """

    is_available: Callable[[Any], bool]
    settings: str


def mean_over_heads(weights: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean over heads of weights (B, heads, rows, columns) in double precision."""
    return weights.double().mean(1)


@dataclass(frozen=True)
class LocalMap(View):
    """Local attention of tokens to tokens, as `local_attentions` of a model's output has it.

    Attributes:
        title: name of this attention.
        by_default: True if it says more than the encoder's self-attention, and is shown unless that is asked for.
        query: the input that marks the tokens which are its columns, in their order, before padding; None if all
            tokens are.
        matrix: maps the weights of a layer and the mask of real tokens (B, L) to a matrix (B, L, columns).
    """

    title: str
    by_default: bool = True
    query: Query | None = None
    matrix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = mean_over_heads


@dataclass(frozen=True)
class Gates(View):
    """Shares of the attention that are local, as `gates` of a model's output has them.

    Attributes:
        layers: returns the numbers, from 0, of the layers that have gates with a configuration.
    """

    layers: Callable[[Any], Sequence[int]]
