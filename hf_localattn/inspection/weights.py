"""Gates of SLA by layer, and token and feature weights of SAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.families import FAMILIES, View, family_of
from hf_localattn.inspection.maps import EQUAL, are_equal
from hf_localattn.inspection.reading import Text, read_all, weights_of


@dataclass(frozen=True, eq=False)
class GateValues:
    """Mean share of local attention in each layer.

    Attributes:
        layers: Indices of the layers, from 0.
        means: (layers,), from 0 (all global) to 1 (all local).
        num_tokens: Number of tokens in the means.
    """

    layers: tuple[int, ...]
    means: np.ndarray
    num_tokens: int


@dataclass(frozen=True, eq=False)
class TokenWeights:
    """Weights of the tokens of a text.

    Attributes:
        tokens: Printable tokens.
        weights: (tokens,). Of `token_weights`, the weights of all tokens, including special ones, sum to 1.
        features (*optional*): (D,), weights of the features, if the model has them.
        title: Description of the weights, if they need one.
    """

    tokens: tuple[str, ...]
    weights: np.ndarray
    features: np.ndarray | None = None
    title: str = ""


def scale_label(weights: Sequence[TokenWeights]) -> str:
    """Return the label of the color bar of token weights."""
    is_influence = any(of_text.title.startswith("influence") for of_text in weights)
    return "influence" if is_influence else "weight of a token"


def gates_of(config: PreTrainedConfig) -> View | None:
    """Return the view of the gates of models with this configuration, or None."""
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
    """Compute the mean gate of each layer over all tokens of all texts (figure 2 of the SLA paper).

    Special tokens are included, padding is not. Texts that are too long are truncated, with a warning.

    Args:
        model: SLA model with gates ("syntax" or "window" attention). It is not changed.
        tokenizer: Tokenizer of the model.
        texts: Single texts, or pairs of texts.
        batch_size (*optional*, defaults to 8): Number of texts per forward pass.

    Returns:
        The mean gates.

    Raises:
        ValueError: The model has no gates, or there are no texts.
    """
    view = gates_of(model.config)
    if view is None:
        views = {name: family.gates for name, family in FAMILIES.items()}
        raise ValueError(f"{type(model).__name__} has no gates with this configuration: use {_users_of(views)}.")
    layers = view.layers(model.config)
    sums = np.zeros(len(layers))
    count = 0
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
    """Compute the weights of the tokens and features of each text (figure 2 of the SAM paper).

    Args:
        model: SAM model with token weights. It is not changed.
        tokenizer: Tokenizer of the model.
        texts: Single texts, or pairs of texts. Texts that are too long are truncated, with a warning.
        special_tokens (*optional*, defaults to False): If True, include special tokens. The weights do not change.
        batch_size (*optional*, defaults to 8): Number of texts per forward pass.

    Returns:
        The weights of each text.

    Raises:
        ValueError: The model has no token weights, or there are no texts.
    """
    if not weighs_tokens(model.config):
        views = {name: family.token_weights for name, family in FAMILIES.items()}
        raise ValueError(
            f"{type(model).__name__} has no token weights with this configuration: use {_users_of(views)}."
        )
    results = []
    for reading in read_all(model, tokenizer, texts, batch_size):
        weights = weights_of(reading.output, "token_attention")
        features = weights_of(reading.output, "feature_attention")
        assert weights is not None
        shown = reading.is_real if special_tokens else reading.is_text
        for row, tokens in enumerate(reading.tokens):
            positions = np.flatnonzero(shown[row])
            of_row = weights[row, positions]
            results.append(
                TokenWeights(
                    tuple(tokens[position] for position in positions),
                    of_row,
                    None if features is None else features[row],
                    EQUAL if are_equal(of_row) else "",
                )
            )
    return results


def _users_of(views: Mapping[str, View | None]) -> str:
    """Return the families with a view and the fields that enable it, for error messages."""
    users = [f"the family {name} with {view.settings}" for name, view in views.items() if view is not None]
    return " or ".join(users)
