"""Attention maps as arrays."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.inspection.reading import Reading, read
from hf_localattn.registry import LocalMap, Query, family_of

logger = logging.getLogger(__name__)

SELF, LOCAL, AUTO = "self", "local", "auto"
KINDS = (AUTO, SELF, LOCAL)
ATTENDING, ATTENDED = "attending token", "attended token"
"""Rows and columns, of every family."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention of tokens to tokens.

    Attributes:
        tokens: of the rows, those that look.
        sources: of the columns, those that are looked at; the same, but for orthogonal attention those of the query.
        weights: (tokens, sources).
        title: what it is a map of.
        row_label, column_label: what rows and columns are.
        layers: the numbers of the layers that it is the mean of, from 0.
    """

    tokens: tuple[str, ...]
    sources: tuple[str, ...]
    weights: np.ndarray
    title: str
    row_label: str
    column_label: str
    layers: tuple[int, ...]


def attention_map(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    text_pair: str | None = None,
    *,
    kind: str = AUTO,
    layers: Sequence[int] | None = None,
    special_tokens: bool = False,
) -> AttentionMap:
    """Return which tokens of a text look at which, as a mean over layers and heads.

    Without special tokens their rows and columns are left out, and the rest stays as it is: rows need not sum to 1.

    Args:
        model: of any family and task, or any encoder of transformers; it stays as it was.
        tokenizer: the model's, a fast one.
        text: for orthogonal attention with its cues marked, unless there is a pair.
        text_pair: the second text of a pair. Of a question-answering model it is the passage.
        kind: "self": the encoder's self-attention, which in SLA is the mixture of local and global attention that was
            applied (its figure 3; COOL's figure 4). "local": COOL's outlook weights, how much of a column's token
            reaches a row's; SLA's local attention before the mixture; OA's attention of every token over the query.
            "auto": "local" of COOL and OA where they have it, "self" of all others. SAM weighs tokens, not pairs of
            them: see `token_weights`.
        layers: numbers of layers of that kind, from 0; all when absent.
        special_tokens: whether those around the texts, such as [CLS], are rows and columns too.

    Raises:
        ValueError: the model has no such weights or layers, does not keep its attention, or the text is too long.
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}; choose one of {', '.join(map(repr, KINDS))}.")
    kind = usual_kind(model.config) if kind == AUTO else kind
    view = None if kind == SELF else _local_view(model)
    reading = read(model, tokenizer, [text if text_pair is None else (text, text_pair)], cut=False)
    shown = (reading.is_real if special_tokens else reading.is_text)[0]
    if not shown.any():
        raise ValueError(f"the tokenizer makes no tokens of {text!r}.")
    if view is None:
        return _self_map(model, reading, shown, layers)
    return _local_map(model, reading, shown, layers, view)


def usual_kind(config: PreTrainedConfig) -> str:
    """The kind that "auto" stands for, of a model with this configuration."""
    view = local_map_of(config)
    return LOCAL if view is not None and view.by_default else SELF


def local_map_of(config: PreTrainedConfig) -> LocalMap | None:
    """Return the view of the local attention of models with this configuration; None if they have none."""
    family = family_of(config)
    view = None if family is None else family.local_map
    return view if view is not None and view.is_available(config) else None


def _self_map(
    model: PreTrainedModel, reading: Reading, shown: np.ndarray, layers: Sequence[int] | None
) -> AttentionMap:
    weights = [layer.double().mean(1) for layer in _per_layer(model, reading, "attentions")]
    chosen = _chosen(layers, len(weights))
    what = "local and global attention, mixed" if reading.output.get("gates") else "self-attention"
    return _square(reading, shown, _mean(weights, chosen), chosen, what)


def _local_view(model: PreTrainedModel) -> LocalMap:
    view, family = local_map_of(model.config), family_of(model.config)
    if view is None:
        hint = " Its weights are of single tokens: see `token_weights`." if family and family.token_weights else ""
        raise ValueError(
            f"{type(model).__name__}, as it is configured, has no local attention from token to token: `kind='self'`"
            f" shows the attention of its encoder.{hint}"
        )
    return view


def _local_map(
    model: PreTrainedModel, reading: Reading, shown: np.ndarray, layers: Sequence[int] | None, view: LocalMap
) -> AttentionMap:
    mask = torch.from_numpy(reading.is_real).to(model.device)
    matrices = [view.matrix(weights, mask) for weights in _per_layer(model, reading, "local_attentions")]
    chosen = _chosen(layers, len(matrices))
    if view.query is None:
        return _square(reading, shown, _mean(matrices, chosen), chosen, view.title)
    return _query_map(reading, shown, _mean(matrices, chosen), chosen, view.title, view.query)


def _query_map(
    reading: Reading, shown: np.ndarray, weights: np.ndarray, chosen: list[int], what: str, query: Query
) -> AttentionMap:
    sources = np.flatnonzero((reading.inputs[query.input][0] != 0) & reading.is_real[0])
    if not len(sources):
        raise ValueError(f"the text has no query: {query.remedy}")
    if len(sources) == 1:
        logger.warning("The query is one token, so that all weights are 1: there is nothing else to look at.")
    tokens = reading.tokens[0]
    return AttentionMap(
        tokens=tuple(tokens[place] for place in np.flatnonzero(shown)),
        sources=tuple(tokens[place] for place in sources),
        weights=weights[shown, : len(sources)],
        title=_title(what, chosen),
        row_label=ATTENDING,
        column_label=f"{ATTENDED} of the query",
        layers=tuple(chosen),
    )


def _per_layer(model: PreTrainedModel, reading: Reading, name: str) -> Sequence[torch.Tensor]:
    """The weights of all layers, (1, heads, L, L) each."""
    weights = reading.output.get(name) or ()
    if not len(weights) or any(one is None for one in weights):
        used = getattr(model.base_model.config, "_attn_implementation", None)
        raise ValueError(
            f"the model runs with attn_implementation={used!r}, which keeps no attention: load it with"
            " attn_implementation='eager', or call model.set_attn_implementation('eager')."
        )
    return weights


def _chosen(layers: Sequence[int] | None, number: int) -> list[int]:
    if layers is None:
        return list(range(number))
    if not layers or not set(layers) <= set(range(number)):
        raise ValueError(f"`layers` is {list(layers)}; there are {number} of that kind: 0 to {number - 1}.")
    return sorted(set(layers))


def _mean(matrices: Sequence[torch.Tensor], chosen: list[int]) -> np.ndarray:
    """The mean over layers of the matrices of one text, (1, rows, columns) each: (rows, columns)."""
    return torch.stack([matrices[layer][0].double() for layer in chosen]).mean(0).cpu().numpy()


def _square(
    reading: Reading,
    shown: np.ndarray,
    weights: np.ndarray,
    chosen: list[int],
    what: str,
) -> AttentionMap:
    tokens = tuple(token for token, wanted in zip(reading.tokens[0], shown, strict=True) if wanted)
    square = weights[np.ix_(shown, shown)]
    return AttentionMap(tokens, tokens, square, _title(what, chosen), ATTENDING, ATTENDED, tuple(chosen))


def _title(what: str, chosen: list[int]) -> str:
    layers = f"layer {chosen[0]}" if len(chosen) == 1 else f"mean of layers {_ranges(chosen)}"
    return f"{what}, {layers}"


def _ranges(numbers: list[int]) -> str:
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
