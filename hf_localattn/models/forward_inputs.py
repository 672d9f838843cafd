"""Inputs that a model can take: how long, and of what names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerBase


def longest_input(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return how many tokens model and tokenizer can take; None if neither sets a limit."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    limits.append(getattr(model.config, "max_tokens", None))  # of local layers
    for name, module in model.named_modules():
        # RoBERTa's positions begin behind the padding index: its table of 514 serves 512 tokens.
        positions = name.endswith("position_embeddings") and isinstance(module, nn.Embedding)
        if positions and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    # tokenizers without a limit say 1e30, XLNet's config says -1
    known = [int(limit) for limit in limits if isinstance(limit, (int, float)) and 0 < limit < 1_000_000_000]
    return min(known, default=None)


def accepted_inputs(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a tokenizer's or collator's outputs that a model's `forward` names."""
    accepted = inspect.signature(model.forward).parameters
    # a wrapper that takes (*args, **kwargs) knows by itself what to do with the rest
    return {name: value for name, value in inputs.items() if name in accepted or "input_ids" not in accepted}
