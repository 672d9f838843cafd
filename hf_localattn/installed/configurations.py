"""Checks of the backbone of a configuration, and of the models that may have it."""

from __future__ import annotations

from typing import Any

from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
)
from transformers.utils import logging

from hf_localattn.models.configuration_local_attention import LocalAttentionConfig

logger = logging.get_logger(__name__)


def check_model(model_class: Any, config: Any) -> None:
    """Raise `ValueError` if a model class does not support a configuration or its backbone."""
    if not hasattr(config, "backbone_config"):  # not isinstance: the code of a checkpoint defines another class
        raise ValueError(
            f"{model_class.__name__} takes a {model_class.config_class.__name__}, not a {type(config).__name__}. To "
            "put new local layers on a pretrained encoder use `from_backbone`."
        )
    check_architecture(model_class, config.backbone_config)


def check_architecture(model_class: Any, backbone: Any) -> None:
    """Raise `ValueError` if a model class cannot have this backbone."""
    name, model_type, family = model_class.__name__, backbone.model_type, model_class.config_class
    encoders, generates = ", ".join(family.tested_backbones), ", ".join(family.generation_backbones)
    problem = ""
    if backbone.is_encoder_decoder and not model_class.can_generate():
        load = "load it with `AutoModelForSeq2SeqLM` or the family's `...ForConditionalGeneration`, or "
        problem = f"puts local layers on an encoder, and the backbone {model_type!r} is an encoder-decoder: "
        problem += f"{load if generates else ''}use an encoder, such as {encoders}"
    elif model_class.can_generate() and not backbone.is_encoder_decoder:
        problem = f"generates text, which {model_type!r} alone cannot: use an encoder-decoder, such as {generates}"
    elif model_class.backbone_auto_class is AutoModelForMaskedLM:
        if type(backbone) not in MODEL_FOR_MASKED_LM_MAPPING:
            able = ", ".join(one for one in family.tested_backbones if one != "xlnet")
            problem = "needs a backbone with a masked language model, and transformers has none for "
            problem += f"{model_type!r}: use another one, such as {able}"
        elif not getattr(backbone, "legacy", True):
            problem = f"does not support `legacy=False` of the backbone {model_type!r}, whose head reads the word "
            problem += "embeddings by itself: use a backbone with `legacy=True`"
    if problem:
        raise ValueError(f"{name} {problem}.")


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
