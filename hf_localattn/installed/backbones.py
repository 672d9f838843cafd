"""Building a model from a pretrained backbone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, PreTrainedConfig
from transformers.modeling_utils import local_torch_dtype

from hf_localattn.installed.configurations import check_architecture, load_config
from hf_localattn.installed.files import as_data, quiet_weights
from hf_localattn.models.configuration_local_attention import BackboneField, LocalAttentionConfig
from hf_localattn.resources import NAMED_BACKBONES

HUB_ARGUMENTS = ("cache_dir", "revision", "token", "local_files_only", "subfolder")
"""Arguments of `from_backbone` that say where the backbone is, as in `from_pretrained`."""


def build_model(
    model_class: Any,
    name_or_path: str | os.PathLike[str],
    *,
    dtype: torch.dtype | str | None = None,
    device_map: str | int | torch.device | None = None,
    attn_implementation: str | None = None,
    trust_remote_code: bool = False,
    **arguments: Any,
) -> Any:
    """Build a model of a class, as `from_backbone` of the class documents.

    The code of a backbone is never run, whatever `trust_remote_code` says.
    """
    hub = {name: arguments.pop(name) for name in HUB_ARGUMENTS if name in arguments}
    check_config_fields(model_class.config_class, arguments)
    if not isinstance(name_or_path, str | os.PathLike):
        raise ValueError(
            f"`from_backbone` takes a Hub id or a folder, not a {type(name_or_path).__name__}: save it first."
        )
    name_or_path = NAMED_BACKBONES.get(str(name_or_path), name_or_path)
    backbone_config = load_config(name_or_path, hub=hub)
    check_architecture(model_class, backbone_config)
    config = model_class.config_class(backbone_config=backbone_config, **arguments)
    hub_id = "" if os.path.exists(name_or_path) else str(name_or_path)
    config.name_or_path = hub_id  # for model cards
    config.backbone_config.name_or_path = hub_id
    if dtype in (None, "auto"):
        dtype = backbone_config.dtype or torch.float32
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype)
    auto_class = model_class.backbone_auto_class
    has_head = auto_class is AutoModelForMaskedLM
    hidden_messages = []
    if not has_head:  # the report tells of a new head of a language model; all else is checked below
        hidden_messages = ["LOAD REPORT"]
        hub |= model_class.pooler_kwargs(backbone_config)
    options = {"config": backbone_config, "dtype": dtype, "trust_remote_code": False, **hub}
    with as_data(name_or_path, options), quiet_weights(*hidden_messages):
        backbone, report = auto_class.from_pretrained(name_or_path, output_loading_info=True, **options)
    encoder = f"{backbone.base_model_prefix}."
    for name in sorted(report["missing_keys"]):
        # A pooler is initialized as in the stock classes; of a new head transformers warns.
        is_needed = name.startswith(encoder) if has_head else not name.startswith("pooler.")
        if is_needed:
            raise ValueError(
                f"{str(name_or_path)!r} lacks weights of {type(backbone).__name__}, such as {name!r}: it is no "
                "checkpoint of this backbone. Choose another one."
            )
    if attn_implementation is not None:
        config._attn_implementation = attn_implementation
    config.dtype = dtype
    with local_torch_dtype(dtype):
        model = model_class(config)
    model.to(dtype)  # XLNet creates some weights in fp32
    if has_head:
        head = {name: value for name, value in backbone.state_dict().items() if not name.startswith(encoder)}
        model.masked_lm.load_state_dict(head)
        backbone = backbone.base_model
    # Not strict: layers that the family adds to the backbone are not in the state dict.
    model.backbone_model.load_state_dict(backbone.state_dict(), strict=False)
    model.on_missing_keys(report["missing_keys"])
    if model.can_generate():
        model.generation_config = backbone.generation_config
    elif config.encoder_states != "last":
        with torch.no_grad():
            base = model.base_model
            base.read_encoder(
                base.forward_backbone, input_ids=torch.zeros(1, 8, dtype=torch.long)
            )  # refused now if ever
    return model.to("cpu" if device_map is None else device_map).eval()


def family_fields(config_class: type[LocalAttentionConfig]) -> set[str]:
    """Return the names of the fields that users set, without those of every configuration."""
    of_every_model = {field.name for field in fields(PreTrainedConfig)} | {"backbone_config", "hf_localattn_version"}
    return {field.name for field in fields(config_class)} - of_every_model


def check_config_fields(
    config_class: type[LocalAttentionConfig], config_fields: Iterable[str], others: Iterable[str] = ()
) -> None:
    """Raise `ValueError` for a name that is neither a field of the family nor in `others`."""
    names = family_fields(config_class)
    allowed = names | {"num_labels", "id2label", "label2id", "problem_type", *others}
    for name in config_fields:
        if name in allowed:
            continue
        if isinstance(getattr(config_class, name, None), BackboneField):
            raise ValueError(f"`{name}` belongs to the backbone: choose a backbone that has the value you want.")
        raise ValueError(f"{config_class.__name__} has no field {name!r}; it has {', '.join(sorted(names))}.")
