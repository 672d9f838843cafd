"""Lookahead (Zhang et al. 2019, arXiv:1907.08610): slow weights around any optimizer."""

from typing import Any

import torch

from hf_localattn.extras import import_extra

DEFAULT_ALPHA = 0.5
"""Step size in the paper."""


def check_lookahead(steps: int | None, alpha: float | None) -> None:
    """Raise `ValueError` for invalid settings of Lookahead."""
    if steps is None and alpha is not None:
        raise ValueError("--lookahead_alpha needs --lookahead_steps, such as --lookahead_steps 5.")
    if steps is not None and steps < 1:
        raise ValueError(f"--lookahead_steps must be at least 1; got {steps}.")
    if alpha is not None and not 0 < alpha <= 1:
        raise ValueError(f"--lookahead_alpha must be above 0 and at most 1; got {alpha}.")


def import_lookahead() -> Any:
    """Return the `Lookahead` class of pytorch_optimizer.

    Raises:
        ImportError: pytorch_optimizer is not installed.
    """
    return import_extra("pytorch_optimizer", "lookahead", "--lookahead_steps").Lookahead


def with_lookahead(optimizer: torch.optim.Optimizer, steps: int, alpha: float) -> torch.optim.Optimizer:
    """Wrap an optimizer with Lookahead. The `state_dict` of the result contains the slow weights.

    After every `steps` steps, the slow weights move by `alpha` times their distance to the model's weights. Then the
    slow weights are copied to the model. At multiples of `steps`, the model therefore has the slow weights when it is
    evaluated or saved. At other steps it has the fast weights.

    Args:
        optimizer: the optimizer of the fast weights.
        steps: number of optimizer steps between two updates of the slow weights.
        alpha: step size of the slow weights.
    """
    return import_lookahead()(optimizer, k=steps, alpha=alpha)
