"""Two learning rates and Lookahead (Zhang et al. 2019, arXiv:1907.08610) around any optimizer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from hf_localattn.extras import import_extra


def pretrained_parameters(model: Any) -> list[nn.Parameter]:
    """Return a model's `pretrained_parameters()`, or the parameters of its base model.

    Raises:
        ValueError: The model has no base model.
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
        groups: Parameter groups of the optimizer.
        pretrained: The pretrained parameters.
        local_learning_rate: Learning rate of the new parameters.

    Returns:
        The new groups. Settings other than parameters and learning rates are unchanged.

    Raises:
        ValueError: No pretrained parameter is trainable, or no new parameter is.
    """
    pretrained_ids = set(map(id, pretrained))
    backbone_groups = []
    local_groups = []
    for group in groups:
        backbone = [parameter for parameter in group["params"] if id(parameter) in pretrained_ids]
        local = [parameter for parameter in group["params"] if id(parameter) not in pretrained_ids]
        if backbone:
            backbone_groups.append({**group, "params": backbone})
        if local:
            local_groups.append({**group, "params": local, "lr": local_learning_rate})
    if not (backbone_groups and local_groups):
        place = "outside" if backbone_groups else "in"
        raise ValueError(
            f"local_learning_rate is given, but the model has no trainable parameter {place} its backbone: use"
            " learning_rate alone."
        )
    return backbone_groups + local_groups


def with_lookahead(optimizer: torch.optim.Optimizer, steps: int, alpha: float) -> torch.optim.Optimizer:
    """Wrap an optimizer with Lookahead. The `state_dict` of the result contains the slow weights.

    After every `steps` steps, the slow weights move by `alpha` times their distance to the model's weights. Then the
    slow weights are copied to the model. At multiples of `steps`, the model therefore has the slow weights when it is
    evaluated or saved. At other steps it has the fast weights.
    """
    library = import_extra("pytorch_optimizer", "lookahead", "--lookahead_steps")
    return library.Lookahead(optimizer, k=steps, alpha=alpha)
