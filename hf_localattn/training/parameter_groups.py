"""Two learning rates: one for the pretrained backbone, one for everything that starts from nothing."""

from typing import Any

from torch import nn


def backbone_of(model: nn.Module) -> nn.Module:
    """Returns the pretrained encoder inside a model: a family's `backbone`, or the base model of a stock class.

    Raises:
        ValueError: the model has neither.
    """
    base = getattr(model, getattr(model, "base_model_prefix", "") or "backbone", model)
    backbone = getattr(base, "backbone", base)
    if not isinstance(backbone, nn.Module) or backbone is model:
        raise ValueError(f"{type(model).__name__} has no backbone that is told apart from its other layers.")
    return backbone


def split_parameter_groups(
    groups: list[dict[str, Any]], backbone: nn.Module, local_learning_rate: float
) -> list[dict[str, Any]]:
    """Returns an optimizer's parameter groups split by module: what is not of the backbone gets its own learning rate.

    Everything else of a group (weight decay and so on) stays as it was.

    Raises:
        ValueError: one of the two kinds has no trainable parameter.
    """
    of_backbone = {id(parameter) for parameter in backbone.parameters()}
    split = []
    for local in (False, True):
        own = []
        for group in groups:
            parameters = [p for p in group["params"] if (id(p) not in of_backbone) is local]
            if parameters:
                rate = {"lr": local_learning_rate} if local else {}
                own.append({**group, "params": parameters, **rate})
        if not own:
            raise ValueError(
                "local_learning_rate is given, but the model has no trainable parameter "
                + ("outside its backbone" if local else "in its backbone")
                + ": use learning_rate alone."
            )
        split.extend(own)
    return split
