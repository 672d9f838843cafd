"""Lookahead (Zhang et al. 2019, arXiv:1907.08610): slow weights that follow those of any optimizer."""

from typing import Any

import torch

from hf_localattn.extras import import_extra

DEFAULT_ALPHA = 0.5
"""The paper's choice."""


def check_lookahead(steps: int | None, alpha: float | None) -> None:
    """Raise `ValueError` for settings that Lookahead cannot have."""
    if steps is None and alpha is not None:
        raise ValueError("--lookahead_alpha goes with --lookahead_steps, such as --lookahead_steps 5.")
    if steps is not None and steps < 1:
        raise ValueError(f"--lookahead_steps must be at least 1; got {steps}.")
    if alpha is not None and not 0 < alpha <= 1:
        raise ValueError(f"--lookahead_alpha must be above 0 and at most 1; got {alpha}.")


def import_lookahead() -> Any:
    """Return the wrapper's class.

    Raises:
        ImportError: its library is not installed.
    """
    return import_extra("pytorch_optimizer", "lookahead", "--lookahead_steps").Lookahead


def with_lookahead(optimizer: torch.optim.Optimizer, steps: int, alpha: float) -> torch.optim.Optimizer:
    """Return the optimizer with slow weights around it, which are in its `state_dict`.

    After every `steps` steps the slow weights go the share `alpha` of the way to the model's, and the model's go on
    from there. So what a model has, is evaluated with and is saved with are the slow weights at every multiple of
    `steps`, and up to `steps` - 1 fast steps from them in between: at each moment those that training goes on from.
    """
    return import_lookahead()(optimizer, k=steps, alpha=alpha)
