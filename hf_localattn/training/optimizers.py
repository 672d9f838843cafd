"""Two learning rates and Lookahead (Zhang et al. 2019, arXiv:1907.08610) around any optimizer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from hf_localattn.extras import import_extra

DEFAULT_ALPHA = 0.5
"""Step size of Lookahead in the paper."""


def pretrained_parameters(model: Any) -> list[nn.Parameter]:
    """Return a model's `pretrained_parameters()`, or the parameters of its base model.

    Raises:
        ValueError: the model has no base model.
    """
    if hasattr(model, "pretrained_parameters"):
        return list(model.pretrained_parameters())
    base = getattr(model, getattr(model, "base_model_prefix", "") or "base_model", model)
    if not isinstance(base, nn.Module) or base is model:
        raise ValueError(f"{type(model).__name__} has no base model: use learning_rate alone.")
    return list(base.parameters())


def split_parameter_groups(
    groups: list[dict[str, Any]], pretrained: Iterable[nn.Parameter], local_learning_rate: float
) -> list[dict[str, Any]]:
    """Split each parameter group of an optimizer into pretrained and new parameters.

    Args:
        groups: parameter groups of the optimizer.
        pretrained: the pretrained parameters.
        local_learning_rate: learning rate of the new parameters.

    Returns:
        The new groups. Settings other than parameters and learning rates are unchanged.

    Raises:
        ValueError: no pretrained parameter is trainable, or no new parameter is.
    """
    of_backbone = {id(parameter) for parameter in pretrained}
    split = []
    for local in (False, True):
        found = []
        for group in groups:
            parameters = [p for p in group["params"] if (id(p) not in of_backbone) is local]
            if parameters:
                found.append({**group, "params": parameters, **({"lr": local_learning_rate} if local else {})})
        if not found:
            raise ValueError(
                "local_learning_rate is given, but the model has no trainable parameter "
                + ("outside its backbone" if local else "in its backbone")
                + ": use learning_rate alone."
            )
        split.extend(found)
    return split


def describe_optimizer(optimizer: Optimizer, lookahead_steps: int | None) -> str:
    """Describe parameters and learning rates: "Training 4,096 parameters at 0.001, Lookahead every 5 steps"."""
    trained: dict[float, int] = {}
    for group in optimizer.param_groups:
        trained[group["lr"]] = trained.get(group["lr"], 0) + sum(one.numel() for one in group["params"])
    rates = " and ".join(f"{count:,} parameters at {rate:g}" for rate, count in trained.items() if count)
    return f"Training {rates}" + (f", Lookahead every {lookahead_steps} steps" if lookahead_steps else "")


def check_lookahead(steps: int | None, alpha: float | None) -> None:
    """Raise `ValueError` for invalid settings of Lookahead."""
    if steps is None and alpha is not None:
        raise ValueError("--lookahead_alpha needs --lookahead_steps, such as --lookahead_steps 5.")
    if steps is not None and steps < 1:
        raise ValueError(f"--lookahead_steps must be at least 1; got {steps}.")
    if alpha is not None and not 0 < alpha <= 1:
        raise ValueError(f"--lookahead_alpha must be above 0 and at most 1; got {alpha}.")


def import_lookahead() -> Any:
    """Return the `Lookahead` class of pytorch_optimizer; raise `ImportError` if it is not installed."""
    return import_extra("pytorch_optimizer", "lookahead", "--lookahead_steps").Lookahead


def with_lookahead(optimizer: torch.optim.Optimizer, steps: int, alpha: float) -> torch.optim.Optimizer:
    """Wrap an optimizer with Lookahead. The `state_dict` of the result contains the slow weights.

    After every `steps` steps, the slow weights move by `alpha` times their distance to the model's weights. Then the
    slow weights are copied to the model. At multiples of `steps`, the model therefore has the slow weights when it is
    evaluated or saved. At other steps it has the fast weights.
    """
    return import_lookahead()(optimizer, k=steps, alpha=alpha)
