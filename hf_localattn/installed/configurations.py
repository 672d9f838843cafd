"""Checks of the backbone and the fields of a new configuration."""

from __future__ import annotations

from typing import Any

from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
)
from transformers.utils import logging

from hf_localattn.models.configuration_local_attention import LocalAttentionConfig

logger = logging.get_logger(__name__)


def note_fields(config: Any) -> None:
    """Warn of fields that differ from their default but have no effect under the current settings."""
    for field in config.inactive_fields():
        logger.warning_once(
            f"`{field}` is {getattr(config, field)!r}, which has no effect with"
            f" {', '.join(f'{name}={getattr(config, name)!r}' for name in config.controlling_fields)}."
        )


def check_backbone(config: Any) -> None:
    """Raise `ValueError` for a backbone that local layers cannot read. Warn of one that was not tested."""
    backbone, model_type = config.backbone_config, config.backbone_config.model_type
    tested = config.generation_backbones if backbone.is_encoder_decoder else config.tested_backbones
    remedy = f"Use an encoder, such as {', '.join(config.tested_backbones)}."
    is_masked_lm = model_type in (*LocalAttentionConfig.tested_backbones, *MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    if isinstance(backbone, LocalAttentionConfig) or hasattr(backbone, "backbone_config"):
        problem = "is itself a composite model"
        remedy += " To load a saved checkpoint of this family, use `from_pretrained`."
    elif backbone.is_encoder_decoder and not tested:
        problem = "is an encoder-decoder"
    elif backbone.is_encoder_decoder and model_type not in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        problem, remedy = "is not a text-to-text model", f"To generate, use {', '.join(tested)}."
    elif backbone.is_encoder_decoder or (model_type in tested and not getattr(backbone, "is_decoder", False)):
        problem = ""
    elif getattr(backbone, "is_decoder", False) or (
        model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_masked_lm
    ):
        problem = "is a decoder, whose tokens attend only to earlier ones"
    elif not is_masked_lm and model_type not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
        problem = "is not a text encoder"
    else:
        problem = ""
    if problem:
        raise ValueError(f"The backbone {model_type!r} {problem}. {remedy}")
    if model_type not in tested:
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({', '.join(tested)}). It may work: before "
            "you rely on it, compare some outputs for a batch with those for each text alone, above all with "
            "padding on the left."
        )
