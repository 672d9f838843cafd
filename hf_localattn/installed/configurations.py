"""Checks of the backbone of a configuration, and of the models that may have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    if problem := _problem_of_architecture(model_class, backbone):
        raise ValueError(f"{model_class.__name__} {problem}.")


def _problem_of_architecture(model_class: Any, backbone: Any) -> str:
    """Return why a model class cannot have this backbone, and what to do; an empty text if it can."""
    model_type = backbone.model_type
    family = model_class.config_class
    if backbone.is_encoder_decoder and not model_class.can_generate():
        load = "load it with `AutoModelForSeq2SeqLM` or the family's `...ForConditionalGeneration`, or "
        return (
            f"puts local layers on an encoder, and the backbone {model_type!r} is an encoder-decoder:"
            f" {load if family.generation_backbones else ''}use an encoder, such as {_names(family.tested_backbones)}"
        )
    if model_class.can_generate() and not backbone.is_encoder_decoder:
        return (
            f"generates text, which {model_type!r} alone cannot: use an encoder-decoder, such as"
            f" {_names(family.generation_backbones)}"
        )
    if model_class.backbone_auto_class is not AutoModelForMaskedLM:
        return ""
    if type(backbone) not in MODEL_FOR_MASKED_LM_MAPPING:
        able = [name for name in family.tested_backbones if name != "xlnet"]
        return (
            "needs a backbone with a masked language model, and transformers has none for"
            f" {model_type!r}: use another one, such as {_names(able)}"
        )
    if not getattr(backbone, "legacy", True):
        return (
            f"does not support `legacy=False` of the backbone {model_type!r}, whose head reads the word embeddings by"
            " itself: use a backbone with `legacy=True`"
        )
    return ""


def check_backbone(config: Any) -> None:
    """Raise `ValueError` for a backbone that local layers cannot read. Warn of one that was not tested."""
    backbone = config.backbone_config
    model_type = backbone.model_type
    if problem := _problem_of_backbone(config, backbone):
        raise ValueError(f"The backbone {model_type!r} {problem}")
    tested = _tested(config, backbone)
    if model_type not in tested:
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({_names(tested)}). It may work: before "
            "you rely on it, compare some outputs for a batch with those for each text alone, above all with "
            "padding on the left."
        )


def _problem_of_backbone(config: Any, backbone: Any) -> str:
    """Return why local layers cannot read a backbone, and the remedy; an empty text if they can."""
    model_type = backbone.model_type
    tested = _tested(config, backbone)
    remedy = f"Use an encoder, such as {_names(config.tested_backbones)}."
    if isinstance(backbone, LocalAttentionConfig) or hasattr(backbone, "backbone_config"):
        return (
            f"is itself a composite model. {remedy} To load a saved checkpoint of this family, use `from_pretrained`."
        )
    if backbone.is_encoder_decoder:
        if not tested:
            return f"is an encoder-decoder. {remedy}"
        if model_type not in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
            return f"is not a text-to-text model. To generate, use {_names(tested)}."
        return ""
    is_decoder = getattr(backbone, "is_decoder", False)
    if model_type in tested and not is_decoder:
        return ""
    is_masked_lm = model_type in (*LocalAttentionConfig.tested_backbones, *MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    if is_decoder or (model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_masked_lm):
        return f"is a decoder, whose tokens attend only to earlier ones. {remedy}"
    if not is_masked_lm and model_type not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
        return f"is not a text encoder. {remedy}"
    return ""


def _tested(config: Any, backbone: Any) -> Sequence[str]:
    """Return the tested backbones of the kind of a backbone."""
    tested: Sequence[str] = config.generation_backbones if backbone.is_encoder_decoder else config.tested_backbones
    return tested


def _names(backbones: Iterable[str]) -> str:
    return ", ".join(backbones)
