"""Reading of configurations, and checks of their backbones and of the models that may have them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForMaskedLM,
    PreTrainedConfig,
)
from transformers.utils import logging

from hf_localattn.errors import CheckpointError, one_line, shorten
from hf_localattn.installed.files import check_checkpoint
from hf_localattn.installed.policy import (
    LEFT_OUT,
    REFUSED,
    UNKNOWN,
    check_folder,
    judge_config,
    known_entries,
    problem_of_type,
    refuse,
)
from hf_localattn.installed.policy_kinds import Family, accepted_values, allow_family, is_family

logger = logging.get_logger(__name__)


def load_config(
    name: str | os.PathLike[str],
    *,
    trust_remote_code: bool = False,
    hub: Mapping[str, Any] = MappingProxyType({}),
    **config_fields: Any,
) -> Any:
    """Load the configuration of a checkpoint of a family, or of a text encoder or encoder-decoder of transformers.

    Of a stock model, entries that nobody knows are left out.

    Args:
        name: Hub id or folder.
        trust_remote_code (*optional*, defaults to False): If True, run the code of the checkpoint.
        hub (*optional*): Arguments of `from_pretrained` that say where files are.
        **config_fields: Fields that replace those of the checkpoint.

    Raises:
        CheckpointError: The checkpoint sets what a stranger's may not.
        OSError: There is no checkpoint.
    """
    if trust_remote_code:
        return AutoConfig.from_pretrained(name, trust_remote_code=True, **hub, **config_fields)
    check_checkpoint(name, hub, weights=False)
    content, _ = PreTrainedConfig.get_config_dict(name, **hub)
    if not is_family(content.get("model_type")):
        content = known_entries(content, str(name))
    config_class = CONFIG_MAPPING[content["model_type"]]
    try:
        return config_class.from_dict(content, name_or_path=str(name), **config_fields)
    except Exception:
        check_values(config_class, content, name)  # or else the caller's fields are wrong
        raise


def check_content(config_class: Any, content: Any, folder: Any = None) -> dict[str, Any]:
    """Check the content of a `config.json` for a class of configurations, and the folder that it is from.

    Args:
        config_class: Class of configurations of a family.
        content: Content of the file.
        folder (*optional*): Name or folder of the checkpoint. A folder is judged whole, except for its weights.

    Returns:
        The content without names of pipelines, since the package registers its own, and of the checkpoint.

    Raises:
        ValueError: The content is of another model type.
        CheckpointError: The content is not an object, or the checkpoint sets what a stranger's may not.
    """
    if not isinstance(content, Mapping):
        raise CheckpointError(f"`config.json` is {shorten(content)}; it must be an object of names and values.")
    model_type = content.get("model_type", config_class.model_type)
    if model_type != config_class.model_type:
        raise ValueError(
            f"This is a {model_type!r} checkpoint, not a {config_class.model_type!r} one. To put new local layers on "
            "a pretrained encoder, use `from_backbone` of the model class."
        )
    if not is_family(model_type):
        backbones = frozenset((*config_class.tested_backbones, *config_class.generation_backbones))
        allow_family(model_type, Family(accepted_values(config_class), backbones))
    judgment = judge_config("config.json", {**content, "model_type": model_type})
    refuse(judgment, str(folder or ""), (REFUSED, UNKNOWN))
    if folder is not None and os.path.isdir(folder):
        check_folder(folder, weights=False)
    return {name: value for name, value in content.items() if name not in LEFT_OUT}


def check_values(config_class: Any, content: Mapping[str, Any], folder: Any) -> None:
    """Raise `CheckpointError` if no configuration can be built from the content of a `config.json` alone."""
    try:
        config_class(**content)
    except CheckpointError:
        raise
    except Exception as error:  # of any library
        raise CheckpointError(f"{Path(folder or '', 'config.json')}: {one_line(error)}. Correct it.") from error


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
    model_type = backbone.model_type
    family = model_class.config_class
    problem = ""
    if backbone.is_encoder_decoder and not model_class.can_generate():
        load = "load it with `AutoModelForSeq2SeqLM` or the family's `...ForConditionalGeneration`, or "
        problem = (
            f"puts local layers on an encoder, and the backbone {model_type!r} is an encoder-decoder:"
            f" {load if family.generation_backbones else ''}use an encoder, such as"
            f" {', '.join(family.tested_backbones)}"
        )
    elif model_class.can_generate() and not backbone.is_encoder_decoder:
        problem = (
            f"generates text, which {model_type!r} alone cannot: use an encoder-decoder, such as"
            f" {', '.join(family.generation_backbones)}"
        )
    elif model_class.backbone_auto_class is AutoModelForMaskedLM:
        if type(backbone) not in MODEL_FOR_MASKED_LM_MAPPING:
            able = [name for name in family.tested_backbones if name != "xlnet"]
            problem = (
                "needs a backbone with a masked language model, and transformers has none for"
                f" {model_type!r}: use another one, such as {', '.join(able)}"
            )
        elif not getattr(backbone, "legacy", True):
            problem = (
                f"does not support `legacy=False` of the backbone {model_type!r}, whose head reads the word embeddings"
                " by itself: use a backbone with `legacy=True`"
            )
    if problem:
        raise ValueError(f"{model_class.__name__} {problem}.")


def check_backbone_type(config_class: Any, model_type: Any) -> None:
    """Raise `ValueError` if a model type, from which a configuration would be built, is not that of a backbone."""
    backbones = (*config_class.tested_backbones, *config_class.generation_backbones)
    if problem := problem_of_type(model_type, backbones):
        raise ValueError(f"The backbone {shorten(model_type)} {problem}")


def check_backbone(config: Any) -> None:
    """Raise `ValueError` for a backbone that local layers cannot read. Warn of one that was not tested."""
    backbone = config.backbone_config
    model_type = backbone.model_type
    tested = _tested(config, backbone)
    remedy = f"Use an encoder, such as {', '.join(config.tested_backbones)}."
    problem = problem_of_type(model_type, (*config.tested_backbones, *config.generation_backbones))
    if not problem and backbone.is_encoder_decoder and not tested:
        problem = f"is an encoder-decoder. {remedy}"
    elif not problem and not backbone.is_encoder_decoder and getattr(backbone, "is_decoder", False):
        problem = f"is a decoder, whose tokens attend only to earlier ones. {remedy}"
    if problem:
        raise ValueError(f"The backbone {model_type!r} {problem}")
    if model_type not in tested:
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({', '.join(tested)}). It may work: before "
            "you rely on it, compare some outputs for a batch with those for each text alone, above all with "
            "padding on the left."
        )


def _tested(config: Any, backbone: Any) -> Sequence[str]:
    """Return the tested backbones of the kind of a backbone."""
    tested: Sequence[str] = config.generation_backbones if backbone.is_encoder_decoder else config.tested_backbones
    return tested
