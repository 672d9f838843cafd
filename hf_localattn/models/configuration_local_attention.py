"""Base class of all configurations: the backbone's configuration and the fields that all families share."""

from __future__ import annotations

import copy
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
from transformers.utils import TRANSFORMERS_DYNAMIC_MODULE_NAME, logging

from .config_checks import (
    LARGEST,
    MOST,
    OF_A_MACHINE,
    as_line,
    bound_of,
    check_content,
    check_names,
    check_shared_fields,
    check_size,
    field_names,
)
from .package_version import VERSION

logger = logging.get_logger(__name__)


LABELS = ("id2label", "label2id", "num_labels")


class BackboneField(property):
    """Property that reads and writes a field of `backbone_config`, so that both configurations agree.

    Args:
        *names: Name of the field, or all its names if they differ between backbones. The first one found is used.
        reads (*optional*): Name of the property of the outer configuration to read instead of the field.
    """

    def __init__(self, *names: str, reads: str | None = None):
        def existing(config: LocalAttentionConfig) -> str:
            return next((name for name in names if hasattr(config.backbone_config, name)), names[0])

        def get(config: LocalAttentionConfig) -> Any:
            return getattr(config, reads) if reads else getattr(config.backbone_config, existing(config))

        def put(config: LocalAttentionConfig, value: Any) -> None:
            try:
                setattr(config.backbone_config, existing(config), value)
            except Exception as error:  # each backbone validates its fields differently
                raise ValueError(
                    f"`{names[0]}` is {value!r}, which the backbone refuses: {as_line(error)}."
                ) from error

        super().__init__(get, put, doc=f"`{reads or f'backbone_config.{names[0]}'}`")


class LocalAttentionConfig(PreTrainedConfig):
    """Base configuration of all families: the configuration of a backbone, and fields of the local attention.

    Args:
        backbone_config (PreTrainedConfig or dict, *optional*, defaults to the family's default backbone):
            Configuration of the pretrained backbone, as an object or as a dict with its `model_type`. It is copied.
        initializer_range (float, *optional*, defaults to 0.02): Standard deviation of the initial weights of new
            layers and heads.
        mlm_residual (bool, *optional*, defaults to False): In masked language modeling, add the projected features of
            the local layers to the backbone's states, instead of replacing them. The projection starts at zero, so the
            initial predictions are those of the backbone. Only for local layers outside the backbone.
        hf_localattn_version (str, *optional*): Version of hf_localattn that saved the checkpoint; None for a new
            configuration. Saving always writes the installed version.

    Raises:
        ValueError: If the backbone is a decoder, not a text model, or a model of these families, or if it is an
            encoder-decoder and the family does not generate.
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
    """Tested encoder-decoder backbones; empty for families that do not generate."""

    controlling_fields: ClassVar[Sequence[str]] = ()
    """Fields that decide which other fields take effect (see `active_fields`)."""

    attribute_map: ClassVar[dict[str, str]] = {}
    """Names of fields in version 0.1.0, mapped to their current names."""

    renamed_values: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """Values of fields in version 0.1.0, mapped to their current spelling, by field."""

    backbone_config: Any = None
    initializer_range: float = 0.02
    mlm_residual: bool = False
    hf_localattn_version: str | None = None

    # Tools that put layers on the last hidden states read `hidden_size`. Writing it sets the backbone's.
    hidden_size = BackboneField("hidden_size", reads="output_size")
    vocab_size = BackboneField("vocab_size")
    num_hidden_layers = BackboneField("num_hidden_layers")
    num_attention_heads = BackboneField("num_attention_heads")
    pad_token_id = BackboneField("pad_token_id")
    max_position_embeddings = BackboneField("max_position_embeddings")
    tie_word_embeddings = BackboneField("tie_word_embeddings")
    # Only encoder-decoders have these; `generate` reads them.
    decoder_layers = BackboneField("decoder_layers", "num_decoder_layers")
    decoder_start_token_id = BackboneField("decoder_start_token_id")
    bos_token_id = BackboneField("bos_token_id")
    eos_token_id = BackboneField("eos_token_id")

    def __post_init__(self, **kwargs: Any) -> None:
        former = {name: kwargs.pop(name) for name in self.attribute_map if name in kwargs}
        for name, value in self.current_names(former).items():
            setattr(self, name, value)
        self.backbone_config = self._build_backbone_config(self.backbone_config)
        check_names(type(self), kwargs)
        check_shared_fields({**vars(self), **kwargs})
        super().__post_init__(**kwargs)
        self.is_encoder_decoder = self.backbone_config.is_encoder_decoder
        self.check()
        for field in self.inactive_fields():
            logger.warning_once(
                f"`{field}` is {getattr(self, field)!r}, which has no effect with"
                f" {', '.join(f'{name}={getattr(self, name)!r}' for name in self.controlling_fields)}."
            )

    def check(self) -> None:
        """Validate all fields.

        Configurations are checked when they are created or loaded, and again when a model is built, since fields can
        change in between.

        Raises:
            ValueError: If a field has an invalid value. The message names the field, its value and the remedy.
        """
        for name, spellings in self.renamed_values.items():
            value = getattr(self, name)
            if isinstance(value, str):  # `check_fields` reports other types
                setattr(self, name, spellings.get(value, value))
        self._check_backbone()
        self._check_backbone_fields()
        check_shared_fields(vars(self))
        self._complete_labels()
        self._check_number("initializer_range", 0.0, math.inf)
        self._check_bools("mlm_residual")
        self.check_fields()

    def _complete_labels(self) -> None:
        """Derive `label2id` from `id2label` if it is missing, or has only the default names."""
        labels = vars(self).get("label2id") or ()
        if self.id2label and all(re.fullmatch(r"LABEL_\d+", str(name)) for name in labels):
            self.label2id = {name: int(number) for number, name in self.id2label.items()}

    def check_fields(self) -> None:
        """Validate the fields of the family. Called by `check`."""

    @classmethod
    def current_names(cls, config_fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields under their current names, and warn about names of version 0.1.0.

        Raises:
            ValueError: If a field is given under both names.
        """
        current: dict[str, Any] = {}
        for name, value in config_fields.items():
            new = cls.attribute_map.get(name, name)
            if new != name:
                logger.warning_once(f"`{name}` is called `{new}` now. The former name is read until version 0.3.0.")
                if new in config_fields:
                    raise ValueError(f"`{name}` is the former name of `{new}`: give one of them.")
            current[new] = value
        return current

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that the models need in addition to the usual ones."""
        return ()

    @property
    def output_size(self) -> int:
        """Width of the last hidden states, by default the backbone's `hidden_size`."""
        return self.backbone_config.hidden_size

    @property
    def max_tokens(self) -> int | None:
        """Largest number of tokens that the local layers accept, or None if they have no limit."""
        return None

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """Settings of the family's tokenizer that these fields change from their defaults."""
        return {}

    def active_fields(self) -> dict[tuple[str, ...], bool]:
        """Map groups of fields to True if they take effect under the current settings.

        Fields that always take effect may be left out.
        """
        return {}

    def inactive_fields(self) -> list[str]:
        """Return the fields that differ from their default but have no effect under the current settings."""
        inactive = [field for fields, active in self.active_fields().items() if not active for field in fields]
        return [field for field in inactive if getattr(self, field) != getattr(type(self), field)]

    def _build_backbone_config(self, backbone_config: Any) -> PreTrainedConfig:
        if isinstance(backbone_config, PreTrainedConfig):
            backbone_config = copy.deepcopy(backbone_config)
        else:
            if not isinstance(backbone_config, Mapping | None):
                raise ValueError(
                    f"`backbone_config` is {backbone_config!r}; give a configuration, or a dict with its `model_type`."
                )
            # The labels of the backbone are not used.
            given = {name: value for name, value in (backbone_config or {}).items() if name not in LABELS}
            model_type = given.pop("model_type", self.default_backbone)
            if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
                raise ValueError(
                    f"`backbone_config` has the unknown model_type {model_type!r}. Give the type of a transformers "
                    f"encoder, such as {', '.join(self.tested_backbones)}."
                )
            config_class = CONFIG_MAPPING[model_type]
            try:
                check_names(config_class, given)
                check_shared_fields(given)
                for name in given.keys() & field_names(config_class):
                    check_size(name, given[name])  # some classes make lists of as many entries
                backbone_config = config_class(**given)
            except Exception as error:  # each backbone validates its fields differently
                raise ValueError(f"`backbone_config` is not valid for {model_type!r}: {as_line(error)}.") from error
        # The name may be the path of a private folder, and this configuration may be published.
        backbone_config._name_or_path = ""
        # The backbone is always a class of transformers, never code of a checkpoint.
        for name in ("auto_map", "custom_pipelines", "trust_remote_code"):
            if name in vars(backbone_config):
                delattr(backbone_config, name)
        return backbone_config

    def _check_backbone(self) -> None:
        backbone, model_type = self.backbone_config, self.backbone_config.model_type
        remedy = f"Use an encoder, such as {', '.join(self.tested_backbones)}."
        if isinstance(backbone, LocalAttentionConfig) or hasattr(backbone, "backbone_config"):
            raise ValueError(
                f"The backbone is itself a composite {model_type!r} model. {remedy} To load a saved checkpoint of "
                "this family, use `from_pretrained`."
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
            raise ValueError(
                f"The backbone {model_type!r} is a decoder, whose tokens attend only to earlier ones. {remedy}"
            )
        if not is_masked_lm and model_type not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
            raise ValueError(f"The backbone {model_type!r} is not a text encoder. {remedy}")
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({', '.join(self.tested_backbones)}). It may "
            "work: before you rely on it, compare some outputs with and without padding, above all padding on the "
            "left."
        )

    def _check_backbone_fields(self) -> None:
        """Raise `ValueError` if the backbone could not be built from its configuration."""
        backbone = self.backbone_config
        try:
            getattr(backbone, "validate", bool)()  # the checks of the backbone's class
        except Exception as error:
            kind = backbone.model_type
            raise ValueError(f"`backbone_config` is not valid for {kind!r}: {as_line(error)}.") from error
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
            size = getattr(backbone, name, None)
            is_known = name == "hidden_size" or backbone.model_type in LocalAttentionConfig.tested_backbones
            if not is_known and not isinstance(size, int):  # untested backbones may have none, or several
                continue
            most = bound_of(name, MOST)
            if type(size) is not int or not 1 <= size <= most:
                raise ValueError(
                    f"`{name}` of `backbone_config` is {size!r}; it must be a whole number from 1 to {most:,}."
                )
        width, heads = backbone.hidden_size, getattr(backbone, "num_attention_heads", None)
        if isinstance(heads, int) and width % heads and backbone.model_type in LocalAttentionConfig.tested_backbones:
            raise ValueError(
                f"`num_attention_heads` of `backbone_config` is {heads}, which does not divide `hidden_size`, {width}."
            )
        pad, rows = getattr(backbone, "pad_token_id", None), getattr(backbone, "vocab_size", None)
        if pad is not None and (type(pad) is not int or (isinstance(rows, int) and not -rows <= pad < rows)):
            raise ValueError(
                f"`pad_token_id` of `backbone_config` is {pad!r}; it must be the id of one of its {rows} tokens, or "
                "null."
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
            raise ValueError(f"The backbone {model_type!r} is not a text-to-text model. To generate, use {tested}.")
        logger.warning_once(
            f"The backbone {model_type!r} is not among the tested ones ({tested}). It may work: before you rely on "
            "it, compare what it generates for a batch and for each text alone."
        )

    def backbone_config_to_build(self) -> PreTrainedConfig:
        """Return the configuration that the backbone is built from; families that enlarge the backbone override it."""
        return self.backbone_config

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """Return the backbone's text configuration for encoder-decoders, since `generate` reads it."""
        if self.is_encoder_decoder:
            return self.backbone_config.get_text_config(decoder=decoder, encoder=encoder)
        return super().get_text_config(decoder=decoder, encoder=encoder)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dict, with the installed version of hf_localattn."""
        content = {**super().to_dict(), "hf_localattn_version": VERSION}
        return {name: value for name, value in content.items() if name not in OF_A_MACHINE}

    @classmethod
    def get_config_dict(cls, pretrained_model_name_or_path: Any, **kwargs: Any) -> Any:
        """Read a `config.json`; raise `OSError` if it is not a JSON object."""
        try:
            return super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        except (AttributeError, TypeError, RecursionError) as error:
            name = str(pretrained_model_name_or_path)
            raise OSError(f"The configuration of {name!r} is not a readable JSON object ({error}).") from error

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Validate the content of a `config.json` and build a configuration from it.

        Raises:
            ValueError: If the content is of another model type, is more than data (see config_checks.py), or is not a
                valid configuration.
        """
        check_content(config_dict, cls._sizes_in(config_dict))
        if not cls.__module__.startswith(f"{TRANSFORMERS_DYNAMIC_MODULE_NAME}."):
            # The installed package registers its pipelines. The checkpoint's are not run, so they need no trust.
            config_dict = {name: value for name, value in config_dict.items() if name != "custom_pipelines"}
        model_type = config_dict.get("model_type", cls.model_type)
        if cls.model_type and model_type != cls.model_type:
            raise ValueError(
                f"This is a {model_type!r} checkpoint, not a {cls.model_type!r} one. To put new local layers on a "
                "pretrained encoder, use `from_backbone` of the model class."
            )
        try:
            loaded = super().from_dict(config_dict, **kwargs)
        except (ValueError, OSError, ImportError):
            raise
        except Exception as error:  # values of a wrong type can raise anything inside transformers
            raise ValueError(f"The configuration cannot be read: {type(error).__name__}: {error}") from error
        # transformers applies overrides after `__post_init__`.
        (loaded[0] if isinstance(loaded, tuple) else loaded).check()
        return loaded

    @classmethod
    def _sizes_in(cls, config_dict: Any) -> set[str]:
        """Return the names of all fields of this configuration and of its backbone's."""
        backbone = config_dict.get("backbone_config") if isinstance(config_dict, Mapping) else None
        model_type = backbone.get("model_type") if isinstance(backbone, Mapping) else None
        is_known = isinstance(model_type, str) and model_type in CONFIG_MAPPING
        backbone_class = CONFIG_MAPPING[model_type if is_known else cls.default_backbone]
        return field_names(cls) | field_names(backbone_class)

    def _check_choice(self, field: str, choices: Sequence[str]) -> None:
        value = getattr(self, field)
        if value not in choices:
            raise ValueError(f"`{field}` is {value!r}; choose one of {', '.join(map(repr, choices))}.")

    def _check_at_least(self, field: str, least: int, most: int | None = None) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"`{field}` is {value!r}; it must be a whole number of at least {least}.")
        most = bound_of(field, MOST) if most is None else most
        if value > most:
            raise ValueError(f"`{field}` is {value}; it must be at most {most:,}.")

    def _check_number(self, field: str, least: float, below: float) -> None:
        value = getattr(self, field)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value < below or abs(value) > sys.float_info.max:
            raise ValueError(f"`{field}` is {value!r}; it must be a number in [{least}, {below}).")
        if abs(value) > LARGEST:  # `from_dict` refuses such numbers, too
            raise ValueError(f"`{field}` is {value!r}; it must be between -{LARGEST} and {LARGEST}.")

    def _check_bools(self, *names: str) -> None:
        for field in names:
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"`{field}` is {getattr(self, field)!r}; it must be true or false.")
