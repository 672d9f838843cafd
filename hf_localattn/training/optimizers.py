"""Learning rates of pretrained and of new parameters, and Lookahead, for any optimizer.

Lookahead is that of Zhang et al. (2019), arXiv:1907.08610. New layers are trained first as Wang et al. (2019),
arXiv:1907.05338, do.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from hf_localattn.extras import import_extra

OF_TWO_KINDS = ("local_learning_rate", "frozen_steps")
"""Training arguments that tell new parameters from pretrained ones."""


def tells_two_kinds(args: Any) -> bool:
    """Return True if training arguments treat new parameters in another way than pretrained ones."""
    return any(getattr(args, name, None) is not None for name in OF_TWO_KINDS)


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
    groups: list[dict[str, Any]], pretrained: Iterable[nn.Parameter], local_learning_rate: float | None
) -> list[dict[str, Any]]:
    """Split each parameter group of an optimizer into pretrained and new parameters.

    Args:
        groups: Parameter groups of the optimizer.
        pretrained: The pretrained parameters.
        local_learning_rate: Learning rate of the new parameters. None leaves it.

    Returns:
        The new groups, each with `is_pretrained`. Settings other than parameters and learning rates are unchanged.

    Raises:
        ValueError: No pretrained parameter is trainable, or no new parameter is.
    """
    pretrained_ids = set(map(id, pretrained))
    of_local = {} if local_learning_rate is None else {"lr": local_learning_rate}
    backbone_groups = []
    local_groups = []
    for group in groups:
        backbone = [parameter for parameter in group["params"] if id(parameter) in pretrained_ids]
        local = [parameter for parameter in group["params"] if id(parameter) not in pretrained_ids]
        if backbone:
            backbone_groups.append({**group, "params": backbone, "is_pretrained": True})
        if local:
            local_groups.append({**group, "params": local, "is_pretrained": False, **of_local})
    if not (backbone_groups and local_groups):
        place = "outside" if backbone_groups else "in"
        raise ValueError(
            f"The model has no trainable parameter {place} its backbone: leave out {' and '.join(OF_TWO_KINDS)}, which"
            " tell new parameters from the backbone's."
        )
    return backbone_groups + local_groups


def begin_frozen(scheduler: Any, frozen_steps: float, warmup_steps: int, total_steps: int) -> None:
    """Change a schedule: the pretrained parameters have rate 0 at first, then rise to the rate of the schedule.

    Args:
        scheduler: Schedule of an optimizer whose groups `split_parameter_groups` made.
        frozen_steps: Number of steps with rate 0, or their share of all steps.
        warmup_steps: Number of steps in which the rate then rises.
        total_steps: Number of all steps.

    Raises:
        ValueError: The schedule is not a function of the step, or no step is left.
    """
    steps = math.ceil(frozen_steps * total_steps) if frozen_steps < 1 else int(frozen_steps)
    if steps >= total_steps:
        raise ValueError(f"frozen_steps: {steps} leave none of {total_steps} steps for the encoder. Give fewer.")
    if not isinstance(scheduler, LambdaLR):
        raise ValueError("frozen_steps needs a schedule by steps: choose another --lr_scheduler_type, such as linear.")

    def delayed(factor: Callable[[int], float]) -> Callable[[int], float]:
        return lambda step: factor(step) * min(max(0, step - steps + 1) / max(1, warmup_steps), 1)

    for index, group in enumerate(scheduler.optimizer.param_groups):
        if group["is_pretrained"]:
            scheduler.lr_lambdas[index] = delayed(scheduler.lr_lambdas[index])
            group["lr"] = 0.0


def with_lookahead(optimizer: torch.optim.Optimizer, steps: int, alpha: float) -> torch.optim.Optimizer:
    """Wrap an optimizer with Lookahead. The `state_dict` of the result contains the slow weights.

    After every `steps` steps, the slow weights move by `alpha` times their distance to the model's weights. Then the
    slow weights are copied to the model. At multiples of `steps`, the model therefore has the slow weights when it is
    evaluated or saved. At other steps it has the fast weights.
    """
    library = import_extra("pytorch_optimizer", "lookahead", "--lookahead_steps")
    return library.Lookahead(optimizer, k=steps, alpha=alpha)
