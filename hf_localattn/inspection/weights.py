"""Values with one number for each token or layer: SLA's gates, and SAM's weights of tokens and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.inspection.reading import Text, read_all, weights_of
from hf_localattn.registry import FAMILIES, Gates, family_of


@dataclass(frozen=True, eq=False)
class GateValues:
    """Share of the attention that is local, layer by layer.

    Attributes:
        layers: their numbers, from 0.
        means: (layers,), from 0, all global, to 1, all local.
        num_tokens: over how many tokens these are means.
    """

    layers: tuple[int, ...]
    means: np.ndarray
    num_tokens: int


@dataclass(frozen=True, eq=False)
class TokenWeights:
    """Weight of each token of a text in its vector.

    Attributes:
        tokens: fit to print.
        weights: (tokens,); over all real tokens, special ones too, they sum to 1.
        features: (D,), how much each feature of the text counts, of a model that weighs them.
    """

    tokens: tuple[str, ...]
    weights: np.ndarray
    features: np.ndarray | None = None


def gates_of(config: PreTrainedConfig) -> Gates | None:
    """Return the view of the gates of models with this configuration; None if they have none."""
    family = family_of(config)
    view = None if family is None else family.gates
    return view if view is not None and view.is_available(config) else None


def weighs_tokens(config: PreTrainedConfig) -> bool:
    """Return True if a model with this configuration has a weight for each token of a text."""
    family = family_of(config)
    return family is not None and family.token_weights is not None and family.token_weights.is_available(config)


def gate_values(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], *, batch_size: int = 8
) -> GateValues:
    """Return the mean gate of each layer over all tokens of all texts (figure 2 of the SLA paper).

    Special tokens are tokens; pads are not. A text that is too long is cut, with a warning.

    Args:
        model: an SLA model with "syntax" or "window" attention; it stays as it was.
        tokenizer: the model's.
        texts: all single ones, or all pairs.
        batch_size: texts per forward pass.

    Raises:
        ValueError: the model has no gates, or there is no text.
    """
    view = gates_of(model.config)
    if view is None:
        known = (f"the family {name} with {one.gates.settings}" for name, one in FAMILIES.items() if one.gates)
        raise ValueError(
            f"{type(model).__name__}, as it is configured, has no gates: these are of {' or '.join(known)}."
        )
    layers = view.layers(model.config)
    sums, count = np.zeros(len(layers)), 0
    for reading in read_all(model, tokenizer, texts, batch_size):
        sums += [gate.double().cpu().numpy()[reading.is_real].sum() for gate in reading.output["gates"]]
        count += int(reading.is_real.sum())
    return GateValues(tuple(layers), sums / count, count)


def token_weights(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    *,
    special_tokens: bool = False,
    batch_size: int = 8,
) -> list[TokenWeights]:
    """Return how much each token of each text counts (figure 2 of the SAM paper), and each feature.

    Args:
        model: a SAM model whose head weighs tokens; it stays as it was.
        tokenizer: the model's.
        texts: all single ones, or all pairs; one that is too long is cut, with a warning.
        special_tokens: whether those around the texts are told too. The weights stay as they are in either case.
        batch_size: texts per forward pass.

    Raises:
        ValueError: the model weighs no tokens, or there is no text.
    """
    if not weighs_tokens(model.config):
        views = {name: family.token_weights for name, family in FAMILIES.items()}
        known = (f"the family {name} does, with {view.settings}" for name, view in views.items() if view is not None)
        raise ValueError(f"{type(model).__name__}, as it is configured, does not weigh tokens: {'; '.join(known)}.")
    found = []
    for reading in read_all(model, tokenizer, texts, batch_size):
        weights, features = (weights_of(reading.output, f"{name}_attention") for name in ("token", "feature"))
        assert weights is not None
        shown = reading.is_real if special_tokens else reading.is_text
        for row, tokens in enumerate(reading.tokens):
            places = np.flatnonzero(shown[row])
            own = tuple(tokens[place] for place in places)
            found.append(TokenWeights(own, weights[row, places], None if features is None else features[row]))
    return found
