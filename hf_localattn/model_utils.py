"""Utilities for any model: a limit for the length of inputs, and evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

MOST_TOKENS = 1_000_000
"""Length limit for models that define none."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run the block with a model in evaluation mode, then restore the mode of each module."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
