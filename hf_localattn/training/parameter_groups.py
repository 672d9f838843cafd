"""Two learning rates: one for pretrained parameters, one for new ones."""

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import Optimizer


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
                rate = {"lr": local_learning_rate} if local else {}
                found.append({**group, "params": parameters, **rate})
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
