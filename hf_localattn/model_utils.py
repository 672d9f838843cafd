"""Running any model: a bound for its inputs (models/forward_inputs.py says what they are), and evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

MOST_TOKENS = 1_000_000
"""Length limit for models that define none."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts a model in evaluation mode and every module of it back into its former mode."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
