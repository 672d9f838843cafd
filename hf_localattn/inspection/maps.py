"""Attention maps as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.families import View, family_of
from hf_localattn.inspection.reading import Reading, read

SELF = "self"
LOCAL = "local"
AUTO = "auto"
KINDS = (AUTO, SELF, LOCAL)
EQUAL = "all weights are equal"
"""What the title of a picture with one color says."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention weights between tokens.

    Attributes:
        tokens: Names of the rows: attending tokens, or what the family's view shows, such as hops.
        sources: Attended tokens, the columns: the query's tokens for orthogonal attention, else `tokens`.
        weights: (rows, columns).
        title: Description of the map.
        row_label: Label of the rows.
        column_label: Label of the columns.
        layers: Indices of the averaged layers, from 0.
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
    text: str | list[str],
    text_pair: str | None = None,
    *,
    kind: str = AUTO,
    layers: Sequence[int] | None = None,
    special_tokens: bool = False,
) -> AttentionMap:
    """Compute the attention between the tokens of a text, as the mean over layers and heads.

    Args:
        model: Model of any family and task, or an encoder of transformers. It is not changed.
        tokenizer: Fast tokenizer of the model.
        text: Text, its words, or the first text of a pair. For orthogonal attention without a pair, cues are marked.
        text_pair (*optional*): Second text of a pair; the passage for question answering.
        kind (*optional*, defaults to "auto"): "self", the self-attention of the encoder (figure 4 of the COOL paper);
            for SLA, the mixture of local and global attention (figure 3 of the SLA paper). "local", local attention:
            for COOL, the weight of each column's token in each row's output; for SLA, local attention before the
            mixture; for OA, attention to the query. "auto", "local" for models of COOL or OA with local attention,
            else "self". SAM has weights of single tokens instead: see `token_weights`.
        layers (*optional*): Indices of layers with this kind of attention, from 0. Defaults to all.
        special_tokens (*optional*, defaults to False): If True, include special tokens, such as [CLS]. If False,
            remove their rows and columns without normalization. Rows may then sum to less than 1.

    Returns:
        The map.

    Raises:
        ValueError: The model has no such attention or layers, its attention implementation returns no weights, or the
            text is too long.
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}; choose one of {', '.join(map(repr, KINDS))}.")
    kind = usual_kind(model.config) if kind == AUTO else kind
    view = None if kind == SELF else _local_view(model)
    texts: Any = text if text_pair is None else (text, text_pair)
    reading = read(model, tokenizer, [texts], cut=False)
    tokens = reading.tokens[0]
    is_real = reading.is_real[0]
    rows = columns = np.flatnonzero(is_real if special_tokens else reading.is_text[0])
    if not len(rows):
        raise ValueError(f"{text!r} has no tokens: give a longer text.")
    if view is None:
        matrices = [weights.double().mean(1) for weights in _per_layer(model, reading, "attentions")]
        what = "local and global attention, mixed" if reading.output.get("gates") else "self-attention"
    else:
        mask = torch.from_numpy(reading.is_real).to(model.device)
        matrices = [view.matrix(weights, mask) for weights in _per_layer(model, reading, "local_attentions")]
        what = view.title
    chosen = _chosen(layers, len(matrices))
    mean = torch.stack([matrices[layer][0].double() for layer in chosen]).mean(0).cpu().numpy()
    family = family_of(model.config)
    query = None if view is None or family is None else family.query
    names = [tokens[place] for place in rows]
    if view is not None and view.rows is not None:
        names = list(view.rows(model.config))
        rows = np.arange(len(names))
    if family is None or query is None:
        weights = mean[np.ix_(rows, columns)]
    else:
        columns = np.flatnonzero((reading.inputs[query][0].numpy() != 0) & is_real)
        weights = mean[rows, : len(columns)]
        if not len(columns):
            raise ValueError(f"the text has no query: {family.query_advice}.")
    averaged = f"layer {chosen[0]}" if len(chosen) == 1 else f"mean of layers {_ranges(chosen)}"
    title = f"{what}, {averaged}"
    if are_equal(weights):
        title = f"{title}; {EQUAL}"
    return AttentionMap(
        tokens=tuple(names),
        sources=tuple(tokens[place] for place in columns),
        weights=weights,
        title=title,
        row_label="attending token" if view is None else view.row_label,
        column_label="attended token" + (" of the query" if query is not None else ""),
        layers=tuple(chosen),
    )


def are_equal(weights: np.ndarray) -> bool:
    """Return True if there are several weights and a picture of them has one color."""
    return weights.size > 1 and float(np.ptp(weights)) <= 1e-3 * float(np.abs(weights).max())


def usual_kind(config: PreTrainedConfig) -> str:
    """Return the kind selected by "auto" for models with this configuration."""
    view = local_map_of(config)
    return LOCAL if view is not None and view.by_default else SELF


def local_map_of(config: PreTrainedConfig) -> View | None:
    """Return the view of the local attention of models with this configuration, or None."""
    family = family_of(config)
    view = None if family is None else family.local_map
    return view if view is not None and view.is_available(config) else None


def _local_view(model: PreTrainedModel) -> View:
    view = local_map_of(model.config)
    family = family_of(model.config)
    if view is None:
        hint = " It has weights of single tokens: see `token_weights`." if family and family.token_weights else ""
        raise ValueError(
            f"{type(model).__name__} has no local attention between tokens with this configuration: use `kind='self'`,"
            f" the attention of its encoder.{hint}"
        )
    return view


def _per_layer(model: PreTrainedModel, reading: Reading, name: str) -> Sequence[torch.Tensor]:
    """Return the weights of each layer, (1, heads, L, L)."""
    weights = reading.output.get(name) or ()
    if not len(weights) or any(of_layer is None for of_layer in weights):
        used = getattr(model.base_model.config, "_attn_implementation", None)
        raise ValueError(
            f"the model has attn_implementation={used!r}, which returns no attention weights: load it with"
            " attn_implementation='eager', or call model.set_attn_implementation('eager')."
        )
    return weights


def _chosen(layers: Sequence[int] | None, count: int) -> list[int]:
    if layers is None:
        return list(range(count))
    if not layers or not set(layers) <= set(range(count)):
        raise ValueError(
            f"`layers` is {list(layers)}; the model has {count} with this attention: choose from 0 to {count - 1}."
        )
    return sorted(set(layers))


def _ranges(numbers: list[int]) -> str:
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
