"""Utilities for any model: its inputs, their maximum length, and evaluation mode."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerBase

MOST_TOKENS = 1_000_000
"""Length limit for models that define none."""


def longest_input(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the maximum number of input tokens of a model with its tokenizer, None if neither has a limit."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    limits.append(getattr(model.config, "max_tokens", None))  # the limit of local layers
    for name, module in model.named_modules():
        # RoBERTa's positions begin after the padding index: 514 position embeddings are enough for 512 tokens.
        positions = name.endswith("position_embeddings") and isinstance(module, nn.Embedding)
        if positions and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    # tokenizers without a limit have 1e30, XLNet's config has -1
    known = [int(limit) for limit in limits if isinstance(limit, (int, float)) and 0 < limit < 1_000_000_000]
    return min(known, default=None)


def accepted_inputs(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a tokenizer or collator that are parameters of a model's `forward`."""
    accepted = inspect.signature(model.forward).parameters
    # a wrapper with the signature (*args, **kwargs) gets all inputs
    return {name: value for name, value in inputs.items() if name in accepted or "input_ids" not in accepted}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run the code inside with a model in evaluation mode, then restore the mode of each of its modules."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
