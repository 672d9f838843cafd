"""States of all layers of an encoder for rows, from one pass: what plain models read.

Shapes: N rows, S layers with the word embeddings, L tokens, H width of the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

TOKENS_PER_GROUP = 4096
"""Number of tokens that the encoder reads at a time."""

WORD_LAYERS = 4
"""Number of layers whose states describe a word."""

Row = Mapping[str, Any]
"""Inputs of a text: `input_ids`, and possibly `token_type_ids`."""


def encoder_of(model: Any) -> nn.Module | None:
    """Return the pretrained encoder inside a model, without a family's layers; None for a model with a decoder."""
    if getattr(model.config, "is_encoder_decoder", False):
        return None
    base = model.base_model
    return getattr(base, "backbone", base)


def mean_layers(encoder: nn.Module, rows: Sequence[Row]) -> np.ndarray:
    """Return the mean over its tokens of each layer's states, for each row (N, S, H); 0 for a row without tokens."""
    filled = [index for index, row in enumerate(rows) if len(row["input_ids"])]
    means: dict[int, Any] = {}
    for indices, states in _states(encoder, [rows[index] for index in filled]):
        for index, mean in zip(indices, states.mean(2).numpy(), strict=True):
            means[filled[index]] = mean
    nothing = np.zeros_like(next(iter(means.values())))
    return np.stack([means.get(index, nothing) for index in range(len(rows))])


def token_layers(encoder: nn.Module, rows: Sequence[Row], positions: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the states of tokens of each row, those of `WORD_LAYERS` layers concatenated (tokens, layers * H).

    The layers have equal distances: the word embeddings are the first of them, the last layer is the last.

    Args:
        encoder: The encoder.
        rows: Inputs of each row.
        positions: Indices of the tokens of each row, such as the first token of each word.
    """
    chosen: list[Any] = [None] * len(rows)
    for indices, states in _states(encoder, rows):
        layers = np.unique(np.linspace(0, states.shape[1] - 1, WORD_LAYERS).round().astype(int))
        of_tokens = states[:, layers].transpose(1, 2).flatten(2).numpy()
        for index, values in zip(indices, of_tokens, strict=True):
            chosen[index] = values[positions[index]]
    return chosen


def _states(encoder: nn.Module, rows: Sequence[Row]) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Yield the indices of rows of equal length, and their states (B, S, L, H). Dropout is off."""
    names = [name for name in ("input_ids", "token_type_ids") if name in rows[0]]
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    try:
        for group in equal_lengths([len(row["input_ids"]) for row in rows]):
            inputs = {}
            for name in names:
                inputs[name] = torch.tensor([rows[index][name] for index in group], device=device)
            with torch.no_grad():
                outputs = encoder(**inputs, output_hidden_states=True, return_dict=True)
            last = outputs.last_hidden_state
            layers = [states for states in outputs.hidden_states or [last] if states.shape == last.shape]
            yield group, torch.stack(layers, dim=1).float().cpu()
    finally:
        encoder.train(was_training)


def equal_lengths(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of indices of rows of equal length, shortest first, which an encoder reads without padding."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        is_full = (len(group) + 1) * length > TOKENS_PER_GROUP
        if group and (is_full or lengths[group[0]] != length):
            yield group
            group = []
        group.append(index)
    if group:
        yield group
