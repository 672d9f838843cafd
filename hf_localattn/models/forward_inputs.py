"""Inputs of any model: their limit of tokens, their names, and the logits of a row without padding."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase


def longest_input(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the largest number of tokens for model and tokenizer, or None without a limit."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    limits.append(getattr(model.config, "max_tokens", None))  # limit of the local layers
    for name, module in model.named_modules():
        # RoBERTa's positions start after the padding index: 514 embeddings serve 512 tokens.
        positions = name.endswith("position_embeddings") and isinstance(module, nn.Embedding)
        if positions and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    # "no limit" is 1e30 in tokenizers and -1 in XLNet's configuration
    numbers = [int(limit) for limit in limits if isinstance(limit, (int, float)) and 0 < limit < 1_000_000_000]
    return min(numbers, default=None)


def accepted_inputs(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Select the outputs of a tokenizer or collator that a model's `forward` names."""
    accepted = inspect.signature(model.forward).parameters
    # a wrapper with (*args, **kwargs) gets all inputs
    return {name: value for name, value in inputs.items() if name in accepted or "input_ids" not in accepted}


def without_pads(logits: torch.Tensor, length: int, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """Return the logits of the `length` tokens of one window, without padding."""
    return logits[:length] if tokenizer.padding_side == "right" else logits[len(logits) - length :]
