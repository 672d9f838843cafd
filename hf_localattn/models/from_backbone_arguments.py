"""Checks of the arguments of `from_backbone`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields

import torch
from transformers import PreTrainedConfig

from .configuration_local_attention import BackboneField, LocalAttentionConfig


def family_fields(config_class: type[LocalAttentionConfig]) -> set[str]:
    """Return the names of the fields that users set, without those of every configuration."""
    of_every_model = {field.name for field in fields(PreTrainedConfig)} | {"backbone_config", "hf_localattn_version"}
    return {field.name for field in fields(config_class)} - of_every_model


def check_config_fields(
    config_class: type[LocalAttentionConfig], config_fields: Iterable[str], others: Iterable[str] = ()
) -> None:
    """Raise `ValueError` for a name that is neither a field of the family nor in `others`, with the nearest name."""
    known = family_fields(config_class) | {"num_labels", "id2label", "label2id", "problem_type", *others}
    for name in config_fields:
        if name in known:
            continue
        if name == "torch_dtype":
            raise ValueError("`torch_dtype` is called `dtype`: give that instead.")
        if isinstance(getattr(config_class, name, None), BackboneField):
            raise ValueError(f"`{name}` belongs to the backbone: choose a backbone that has the value you want.")
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{config_class.__name__} has no field {name!r}.{hint}")


def check_device(device: str | int | torch.device | None) -> torch.device:
    """Return the device with this name; None means the CPU.

    Raises:
        ValueError: The value is not a single device.
    """
    try:
        return torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"`device_map` is {device!r}; `from_backbone` takes one device, such as 'cuda:0'. To split a model between"
            " devices, save it and load it with `from_pretrained(..., device_map='auto')`."
        ) from None
