"""What the configurations of all families share: a backbone's own configuration, and common fields onto it."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import torch
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
from transformers.utils import logging

from .package_version import VERSION

logger = logging.get_logger(__name__)

MOST = 1_000_000
"""The largest size or count that a field may have; with more no model could be built."""

MOST_LABELS = 100_000
"""The largest number of classes: a configuration names each."""

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")


class BackboneField(property):
    """A property, with setter, onto a field of `backbone_config`, so that resizing, reloading and generating agree.

    Args:
        *names: of the field; of several the one that the backbone has.
    """

    def __init__(self, *names: str):
        def existing(config: LocalAttentionConfig) -> str:
            return next((name for name in names if hasattr(config.backbone_config, name)), names[0])

        def get(config: LocalAttentionConfig) -> Any:
            return getattr(config.backbone_config, existing(config))

        def put(config: LocalAttentionConfig, value: Any) -> None:
            try:
                setattr(config.backbone_config, existing(config), value)
            except Exception as error:  # backbones check their fields in ways, and with errors, of their own
                raise ValueError(f"`{names[0]}` is {value!r}, which the backbone refuses: {_line(error)}.") from error

        super().__init__(get, put, doc=f"`backbone_config.{names[0]}`")


class LocalAttentionConfig(PreTrainedConfig):
    """Configuration of a family: the backbone's own configuration beside the family's fields.

    Args:
        backbone_config: configuration of the pretrained encoder, as an object or as a dict with its `model_type`; the
            family's default backbone when absent. It is copied, so that nothing done here reaches the caller's.
        initializer_range: standard deviation of the weights of new layers and heads.
        hf_localattn_version: version of this package that has saved the checkpoint, None for a new one. What is saved
            names the version that saves it.

    Raises:
        ValueError: the backbone is a decoder, an encoder-decoder (where the family does not generate), not a text
            model, or one of these families itself.
    """

    model_type = ""
    sub_configs: ClassVar[dict[str, Any]] = {"backbone_config": AutoConfig}
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["hidden_states", "attentions", "local_attentions"]

    default_backbone: ClassVar[str] = "bert"
    tested_backbones: ClassVar[Sequence[str]] = (
        "bert",
        "roberta",
        "albert",
        "electra",
        "distilbert",
        "deberta-v2",
        "modernbert",
        "xlnet",
    )
    generation_backbones: ClassVar[Sequence[str]] = ()
    """The tested encoder-decoders of a family that generates."""

    deciding_fields: ClassVar[Sequence[str]] = ()
    """The fields that decide which others count (`used_fields`)."""

    backbone_config: Any = None
    initializer_range: float = 0.02
    hf_localattn_version: str | None = None

    hidden_size = BackboneField("hidden_size")
    vocab_size = BackboneField("vocab_size")
    num_hidden_layers = BackboneField("num_hidden_layers")
    num_attention_heads = BackboneField("num_attention_heads")
    pad_token_id = BackboneField("pad_token_id")
    max_position_embeddings = BackboneField("max_position_embeddings")
    # Of encoder-decoders, for `generate`.
    decoder_layers = BackboneField("decoder_layers", "num_decoder_layers")
    decoder_start_token_id = BackboneField("decoder_start_token_id")
    bos_token_id = BackboneField("bos_token_id")
    eos_token_id = BackboneField("eos_token_id")

    def __post_init__(self, **kwargs: Any) -> None:
        self.backbone_config = self._build_backbone_config(self.backbone_config)
        check_names(type(self), kwargs)
        check_shared_fields({**vars(self), **kwargs})
        super().__post_init__(**kwargs)
        self.is_encoder_decoder = self.backbone_config.is_encoder_decoder
        self.check()
        for field in self.idle_fields():
            logger.warning_once(
                f"`{field}` is {getattr(self, field)!r}, which changes nothing as the other fields are set:"
                f" {', '.join(f'{name}={getattr(self, name)!r}' for name in self.deciding_fields)}."
            )

    def check(self) -> None:
        """Raise `ValueError` for a field that cannot be, naming it, its value and the remedy.

        A configuration checks itself when it is made or loaded; a model checks it again, as fields can be set.
        """
        self._check_backbone()
        self._check_backbone_fields()
        check_shared_fields(vars(self))
        self._check_number("initializer_range", 0.0, math.inf)
        self.check_fields()

    def check_fields(self) -> None:
        """The family's own part of `check`."""

    @property
    def needed_inputs(self) -> tuple[str, ...]:
        """What the models need of each text besides a transformer's usual inputs."""
        return ()

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """Settings of the family's tokenizer, if it has one, that differ from its defaults because of these fields."""
        return {}

    def used_fields(self) -> dict[tuple[str, ...], bool]:
        """Which of the family's fields count, as the others are; fields that always do need not be there."""
        return {}

    def idle_fields(self) -> list[str]:
        """Fields that are not at their default and of which, as the others are, nothing depends."""
        idle = [field for fields, used in self.used_fields().items() if not used for field in fields]
        return [field for field in idle if getattr(self, field) != getattr(type(self), field)]

    def _build_backbone_config(self, backbone_config: Any) -> PreTrainedConfig:
        if isinstance(backbone_config, PreTrainedConfig):
            backbone_config = copy.deepcopy(backbone_config)
        else:
            if not isinstance(backbone_config, Mapping | None):
                raise ValueError(
                    f"`backbone_config` is {backbone_config!r}; give a configuration, or a dict with its `model_type`."
                )
            own = dict(backbone_config or {})
            model_type = own.pop("model_type", self.default_backbone)
            if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
                raise ValueError(
                    f"`backbone_config` has the unknown model_type {model_type!r}. Give the type of a transformers "
                    f"encoder, such as {', '.join(self.tested_backbones)}."
                )
            config_class = CONFIG_MAPPING[model_type]
            try:
                check_names(config_class, own)
                check_shared_fields(own)
                backbone_config = config_class(**own)
            except Exception as error:  # backbones check their fields in ways, and with errors, of their own
                raise ValueError(f"`backbone_config` cannot be that of a {model_type!r}: {_line(error)}.") from error
        # Where the backbone came from may be a private folder, and this configuration gets published.
        backbone_config._name_or_path = ""
        return backbone_config

    def _check_backbone(self) -> None:
        backbone, model_type = self.backbone_config, self.backbone_config.model_type
        remedy = f"Use an encoder, such as {', '.join(self.tested_backbones)}."
        if isinstance(backbone, LocalAttentionConfig) or hasattr(backbone, "backbone_config"):
            raise ValueError(
                f"The backbone is itself a composite {model_type!r} model. {remedy} A saved checkpoint of this family "
                "is loaded with `from_pretrained`."
            )
        if backbone.is_encoder_decoder:
            self._check_generation_backbone()
            return
        is_encoder = model_type in LocalAttentionConfig.tested_backbones
        if is_encoder and getattr(backbone, "is_decoder", False):
            raise ValueError(f"The backbone {model_type!r} is set up as a decoder: set `is_decoder=False`.")
        if model_type in self.tested_backbones:
            return
        is_masked_lm = is_encoder or model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        if getattr(backbone, "is_decoder", False) or (
            model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_masked_lm
        ):
            raise ValueError(f"The backbone {model_type!r} is a decoder, whose tokens see only the past. {remedy}")
        if not is_masked_lm and model_type not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
            raise ValueError(f"The backbone {model_type!r} is not a text encoder. {remedy}")
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({', '.join(self.tested_backbones)}). It may "
            "well work: compare a few outputs with and without padding, above all on the left, before you trust it."
        )

    def _check_backbone_fields(self) -> None:
        """Raise `ValueError` for fields with which the backbone could not be built, be they set here or there."""
        backbone = self.backbone_config
        try:
            getattr(backbone, "validate", bool)()  # what it checks itself
        except Exception as error:
            kind = backbone.model_type
            raise ValueError(f"`backbone_config` cannot be that of a {kind!r}: {_line(error)}.") from error
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
            size = getattr(backbone, name, None)
            is_known = name == "hidden_size" or backbone.model_type in LocalAttentionConfig.tested_backbones
            if not is_known and not isinstance(size, int):  # others may have none, or one for each part
                continue
            if type(size) is not int or not 1 <= size <= MOST:
                raise ValueError(
                    f"`{name}` of `backbone_config` is {size!r}; it must be a whole number from 1 to {MOST:,}."
                )
        width, heads = backbone.hidden_size, getattr(backbone, "num_attention_heads", None)
        if isinstance(heads, int) and width % heads and backbone.model_type in LocalAttentionConfig.tested_backbones:
            raise ValueError(
                f"`num_attention_heads` of `backbone_config` is {heads}, which does not divide `hidden_size`, {width}."
            )
        pad, rows = getattr(backbone, "pad_token_id", None), getattr(backbone, "vocab_size", None)
        if pad is not None and (type(pad) is not int or (isinstance(rows, int) and not -rows <= pad < rows)):
            raise ValueError(
                f"`pad_token_id` of `backbone_config` is {pad!r}; it must be one of its {rows} tokens, or null."
            )

    def _check_generation_backbone(self) -> None:
        model_type, tested = self.backbone_config.model_type, ", ".join(self.generation_backbones)
        if not tested:
            raise ValueError(
                f"The backbone {model_type!r} is an encoder-decoder. Use an encoder, such as "
                f"{', '.join(self.tested_backbones)}."
            )
        if model_type in self.generation_backbones:
            return
        if model_type not in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES or model_type not in MODEL_MAPPING_NAMES:
            raise ValueError(f"The backbone {model_type!r} does not turn text into text. To generate use {tested}.")
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({tested}). It may well work: compare what it "
            "generates in a batch and alone before you trust it."
        )

    def backbone_config_to_build(self) -> PreTrainedConfig:
        """The configuration with which the backbone is built: its own, unless a family enlarges it."""
        return self.backbone_config

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """As transformers' own; what `generate` asks of an encoder-decoder is in the backbone's configuration."""
        if self.is_encoder_decoder:
            return self.backbone_config.get_text_config(decoder=decoder, encoder=encoder)
        return super().get_text_config(decoder=decoder, encoder=encoder)

    def to_dict(self) -> dict[str, Any]:
        """As transformers' own, with the version of this package beside that of transformers."""
        return {**super().to_dict(), "hf_localattn_version": VERSION}

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As transformers' own; a configuration of another model type is refused, as its weights would not fit."""
        model_type = config_dict.get("model_type", cls.model_type)
        if cls.model_type and model_type != cls.model_type:
            raise ValueError(
                f"This is a {model_type!r} checkpoint, not a {cls.model_type!r} one. To put new local layers on a "
                "pretrained encoder use `from_backbone` of the model class."
            )
        loaded = super().from_dict(config_dict, **kwargs)
        # transformers sets overrides after the fact.
        (loaded[0] if isinstance(loaded, tuple) else loaded).check()
        return loaded

    def _check_choice(self, field: str, choices: Sequence[str]) -> None:
        value = getattr(self, field)
        if value not in choices:
            raise ValueError(f"`{field}` is {value!r}; choose one of {', '.join(map(repr, choices))}.")

    def _check_at_least(self, field: str, least: int) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"`{field}` is {value!r}; it must be a whole number of at least {least}.")
        if value > MOST:
            raise ValueError(f"`{field}` is {value}; it must be at most {MOST:,}.")

    def _check_number(self, field: str, least: float, below: float) -> None:
        value = getattr(self, field)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value < below or abs(value) > sys.float_info.max:
            raise ValueError(f"`{field}` is {value!r}; it must be a number in [{least}, {below}).")

    def _check_bools(self, *names: str) -> None:
        for field in names:
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"`{field}` is {getattr(self, field)!r}; it must be true or false.")


def check_names(config_class: type[PreTrainedConfig], names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that a configuration has for something else than a value that can be set.

    A file that sets it would take the place of a method, or of what follows from other fields.
    """
    known = {"model_type", *(field.name for field in fields(config_class))}
    for name in names:
        there = getattr(config_class, name, None) if isinstance(name, str) else None
        is_free = there is None or name in known or getattr(there, "fset", None) is not None
        is_free &= name != "per_layer_config"  # layers that differ
        if not isinstance(name, str) or (not is_free and not isinstance(there, str | bool | int | float)):
            raise ValueError(f"`{name}` is no field of {config_class.__name__} that can be set: leave it out.")


def check_shared_fields(given: Mapping[str, Any]) -> None:
    """Raise `ValueError` for impossible values of fields that all models have and transformers does not check."""
    count, names, kind = given.get("num_labels", 1), given.get("id2label"), given.get("problem_type")
    if type(count) is not int or not 1 <= count <= MOST_LABELS:
        raise ValueError(f"`num_labels` is {count!r}; it must be a whole number from 1 to {MOST_LABELS:,}.")
    if names is not None and not _is_numbered(names):
        raise ValueError(f"`id2label` is {names!r}; give a name for each class by its number, from 0.")
    if not isinstance(given.get("label2id"), dict | None):
        raise ValueError(f"`label2id` is {given['label2id']!r}; give the number of each class by its name.")
    if kind is not None and kind not in PROBLEM_TYPES:
        raise ValueError(f"`problem_type` is {kind!r}; choose one of {', '.join(PROBLEM_TYPES)}, or leave it out.")
    for name in ("dtype", "torch_dtype"):
        dtype = given.get(name)
        dtype = getattr(torch, dtype, dtype) if isinstance(dtype, str) else dtype
        if not isinstance(dtype, torch.dtype | None):
            raise ValueError(f"`{name}` is {given[name]!r}; it must be a type of torch's numbers, such as 'float32'.")
    kind_of_attention = given.get("attn_implementation")
    if not isinstance(kind_of_attention, str | dict | None):
        raise ValueError(f"`attn_implementation` is {kind_of_attention!r}; it must be a name, such as 'sdpa'.")
    if not isinstance(given.get("output_attentions"), bool | None):
        raise ValueError(f"`output_attentions` is {given['output_attentions']!r}; it must be true or false.")
    classes = given.get("architectures")
    if classes is not None and not (
        isinstance(classes, list | tuple) and all(isinstance(one, str) for one in classes)
    ):
        raise ValueError(f"`architectures` is {classes!r}; it must be a list of names of classes.")


def _is_numbered(names: Any) -> bool:
    """Whether these are names, or numbers as names, by the numbers from 0, which a file has as text."""
    if not isinstance(names, dict) or not names:
        return False
    numbers = {str(number) for number in names}
    return numbers == {str(number) for number in range(len(names))} and all(
        isinstance(name, str | int | float) for name in names.values()
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
