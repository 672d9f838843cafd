"""Base class of all models: building, loading and saving a model with a pretrained backbone."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import torch
from torch import nn
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from .backbone_features import BackboneFeatures
from .config_checks import as_line, check_generation_config
from .configuration_local_attention import LocalAttentionConfig
from .from_backbone_arguments import check_config_fields, check_device
from .weight_checks import CONVERSION, building, check_neighbors, loading_from, without_tie_warning

logger = logging.get_logger(__name__)


class LocalAttentionPreTrainedModel(BackboneFeatures):
    """Base class of all models and heads. It builds, initializes, loads and saves them."""

    config_class = LocalAttentionConfig
    supports_gradient_checkpointing = True
    # Allow all here: the backbone, also a `PreTrainedModel`, raises for an implementation that it does not support.
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    base_model_class: ClassVar[type[PreTrainedModel]]
    """Headless model of the family. Heads have it as the attribute `base_model_prefix`."""

    auto_classes: ClassVar[dict[str, str]] = {}
    """The family's class for each Auto class, saved as `auto_map` in checkpoints.

    Encoder-decoder checkpoints list only generation classes; encoder checkpoints list the others.
    """

    pipelines: ClassVar[dict[str, Any]] = {}
    """Pipelines of this class, saved as `custom_pipelines` in checkpoints (see `saved_pipelines`)."""
    named_backbones: ClassVar[dict[str, str]] = {}
    """Folders of backbones by short names for `from_backbone`. The installed package adds its own."""

    backbone_auto_class: ClassVar[Any] = AutoModel
    """Auto class of the backbone."""

    token_inputs: ClassVar[tuple[str, ...]] = ()
    """Names of the family's additional inputs with one value per token."""

    _checkpoint_conversion_mapping: ClassVar[dict[str, str]] = {}
    """Names of weights in version 0.1.0, as patterns, mapped to their current names. peft reads this attribute."""

    def __init__(self, config: LocalAttentionConfig):
        self.check_config(config)
        super().__init__(config)
        self.add_model_tags(["hf_localattn", config.model_type])  # to filter by on the Hub

    @classmethod
    def from_backbone(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        local_files_only: bool = False,
        subfolder: str = "",
        dtype: torch.dtype | str | None = None,
        device_map: str | int | torch.device | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
        **config_fields: Any,
    ) -> Self:
        """Build a model from a pretrained backbone, with new local layers and a new head.

        Args:
            name_or_path: Hub id or folder of the backbone, with safetensors weights; or "tiny" or "tiny-bart", small
                random backbones of the installed package.
            cache_dir (*optional*): Folder for downloads, as in `from_pretrained`.
            revision (*optional*, defaults to "main"): Branch, tag or commit on the Hub.
            token (*optional*): Access token for the Hub. Defaults to the token of `hf auth login`.
            local_files_only (*optional*, defaults to False): If True, download nothing.
            subfolder (*optional*, defaults to ""): Folder of the backbone in its repository or folder.
            dtype (*optional*): dtype of all weights. Defaults to the checkpoint's dtype.
            device_map (*optional*, defaults to the CPU): Device of the model, such as "cuda". To split a model between
                devices, save it and load it with `from_pretrained`.
            attn_implementation (*optional*): Attention implementation of the backbone, such as "eager" or "sdpa".
            trust_remote_code (*optional*): Has no effect. The code of a backbone is never run.
            **config_fields: Fields of the family's configuration, and `num_labels`, `id2label`, `label2id` or
                `problem_type`.

        Returns:
            The model, in evaluation mode.

        Raises:
            ValueError: A field is unknown (the message names the nearest one) or has an invalid value, or the backbone
                is not supported.
            OSError: The backbone cannot be loaded, or has no safetensors weights.
        """
        config_fields = cls.config_class.current_names(config_fields)
        check_config_fields(cls.config_class, config_fields)
        source = {
            "cache_dir": cache_dir,
            "revision": revision,
            "token": token,
            "local_files_only": local_files_only,
            "subfolder": subfolder,
            "trust_remote_code": False,
        }
        device = check_device(device_map)
        if trust_remote_code:
            logger.warning_once("`trust_remote_code` has no effect: the code of a backbone is never run.")
        if not isinstance(name_or_path, str | os.PathLike):
            raise ValueError(
                f"`from_backbone` takes a Hub id or a folder, not a {type(name_or_path).__name__}: save it first."
            )
        name_or_path = cls.named_backbones.get(str(name_or_path), name_or_path)
        try:
            backbone_config = AutoConfig.from_pretrained(name_or_path, **source)
        except ValueError as error:
            if "trust_remote_code" not in str(error):
                raise
            raise ValueError(
                f"{str(name_or_path)!r} has an architecture with its own code. The code of a backbone is never run:"
                " choose a backbone whose architecture is part of transformers."
            ) from error
        cls.validate_architecture(backbone_config)
        config = cls.config_class(backbone_config=backbone_config, **config_fields)
        cls.check_config(config)
        # XLNet creates some weights in fp32, whatever the dtype: convert all weights in the end.
        dtype = dtype if dtype not in (None, "auto") else backbone_config.dtype or torch.float32
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        try:
            with without_tie_warning():
                backbone, report = cls.backbone_auto_class.from_pretrained(
                    name_or_path,
                    config=backbone_config,
                    use_safetensors=True,
                    dtype=dtype,
                    output_loading_info=True,
                    **cls.backbone_kwargs(backbone_config),
                    **source,
                )
        except OSError as error:
            if not re.search(r"(no file named|not appear to have a file named) \S*safetensors", str(error)):
                raise  # another error, such as that of a server
            raise OSError(
                f"{str(name_or_path)!r} has no safetensors weights, and other formats are not read. If you trust its "
                f"file, convert it: `{cls.backbone_auto_class.__name__}.from_pretrained(name, use_safetensors=False)"
                ".save_pretrained(folder)`."
            ) from error
        if missing := sorted(key for key in report["missing_keys"] if not cls._begins_afresh(key, backbone)):
            raise ValueError(
                f"{str(name_or_path)!r} lacks weights of {type(backbone).__name__}, such as {missing[0]!r}: it is no "
                "checkpoint of this backbone. Choose another one."
            )
        attention = {} if attn_implementation is None else {"attn_implementation": attn_implementation}
        model = cls._from_config(config, dtype=dtype, **attention).to(dtype)
        model._copy_weights(backbone)
        model._note_missing(report["missing_keys"])
        if model.can_generate():
            model.generation_config = backbone.generation_config
        return model.to(device).eval()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *model_args: Any, **kwargs: Any) -> Self:
        """Load a model as in transformers, but only from safetensors files, so that nothing is unpickled.

        Args:
            pretrained_model_name_or_path: Hub id or folder of the checkpoint.
            *model_args: As in `PreTrainedModel.from_pretrained`.
            **kwargs: As in `PreTrainedModel.from_pretrained`.

        Returns:
            The model, in evaluation mode; with `output_loading_info=True` a tuple of the model and the loading report.

        Raises:
            ValueError: `use_safetensors` is False, the weight files are damaged or lack most weights of the model (see
                weight_checks.py), or the checkpoint has an adapter.
            OSError: The checkpoint cannot be loaded, or has no safetensors weights.
        """
        if not kwargs.setdefault("use_safetensors", True):
            raise ValueError(f"`use_safetensors={kwargs['use_safetensors']}` would unpickle weights. {CONVERSION}")
        wants_report = kwargs.pop("output_loading_info", False)
        kwargs["output_loading_info"] = True
        kwargs["key_mapping"] = {**cls._checkpoint_conversion_mapping, **(kwargs.get("key_mapping") or {})}
        try:
            with contextlib.ExitStack() as checked:
                checked.enter_context(without_tie_warning())
                if pretrained_model_name_or_path is not None:  # if None, `state_dict` has the weights
                    check_neighbors(pretrained_model_name_or_path, kwargs)
                    checked.enter_context(loading_from(pretrained_model_name_or_path, kwargs))
                loaded, report = super().from_pretrained(pretrained_model_name_or_path, *model_args, **kwargs)
        except OSError as error:
            if not re.search(r"(no file named|not appear to have a file named) \S*safetensors", str(error)):
                raise  # another error, such as that of a server
            raise OSError(f"{str(error).rstrip('.')}, and other formats are not read. {CONVERSION}") from error
        loaded._weight_conversions = [  # saving would undo them
            one
            for one in loaded._weight_conversions
            if one.source_patterns[0] not in cls._checkpoint_conversion_mapping
        ]
        loaded._finalize_loading()
        loaded._note_missing(report["missing_keys"])
        if hasattr(loaded.config, "custom_pipelines"):  # only code of a checkpoint keeps them
            del loaded.config.custom_pipelines  # transformers would look for their files in the model object
        if loaded.can_generate():
            check_generation_config(loaded.generation_config)
        result: Any = (loaded, report) if wants_report else loaded
        return result

    @classmethod
    def get_init_context(cls, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the contexts in which `from_pretrained` builds a model."""
        return [*super().get_init_context(*args, **kwargs), building()]

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Save a model as in transformers, with its code files.

        `config.json` names all heads of the family in `auto_map` and the class's pipelines in `custom_pipelines`.

        Args:
            save_directory: Folder of the checkpoint.
            *args: As in `PreTrainedModel.save_pretrained`.
            **kwargs: As in `PreTrainedModel.save_pretrained`.

        Raises:
            ValueError: The configuration has an invalid value, so the checkpoint could not be loaded.
        """
        self.config.check()
        self.config.auto_map = dict(self.auto_classes)
        if self.saved_pipelines:
            self.config.custom_pipelines = copy.deepcopy(self.saved_pipelines)
        elif hasattr(self.config, "custom_pipelines"):
            del self.config.custom_pipelines  # pipelines of another head
        # `fully_shard` sets a class made by torch. Its name and file would be saved as code.
        made = type(self)
        self.__class__ = next(one for one in made.__mro__ if not one.__module__.startswith("torch."))
        if type(self.config) is self.config_class:
            self.config._auto_class = None  # its code is among the files that the model's needs: not copied twice
        try:
            super().save_pretrained(save_directory, *args, **kwargs)
        finally:
            self.__class__ = made
            self.config.__dict__.pop("_auto_class", None)

    @classmethod
    def check_config(cls, config: LocalAttentionConfig) -> None:
        """Raise `ValueError` if a configuration has another class, invalid fields or an unsupported backbone."""
        if not hasattr(config, "backbone_config"):  # not isinstance: the code of a checkpoint defines another class
            raise ValueError(
                f"{cls.__name__} takes a {cls.config_class.__name__}, not a {type(config).__name__}. To put new local "
                "layers on a pretrained encoder use `from_backbone`."
            )
        cls.validate_architecture(config.backbone_config)
        config.check()

    @classmethod
    def validate_architecture(cls, backbone_config: PreTrainedConfig) -> None:
        """Raise `ValueError` if exactly one of the class and the backbone is an encoder-decoder."""
        model_type, family = backbone_config.model_type, cls.config_class
        if backbone_config.is_encoder_decoder and not cls.can_generate():
            generates = "load it with `AutoModelForSeq2SeqLM` or the family's `...ForConditionalGeneration`, or "
            raise ValueError(
                f"{cls.__name__} puts local layers on an encoder, and the backbone {model_type!r} is an "
                f"encoder-decoder: {generates if family.generation_backbones else ''}use an encoder, such as "
                f"{', '.join(family.tested_backbones)}."
            )
        if cls.can_generate() and not backbone_config.is_encoder_decoder:
            raise ValueError(
                f"{cls.__name__} generates text, which {model_type!r} alone cannot: use an encoder-decoder, such as "
                f"{', '.join(family.generation_backbones)}."
            )

    @classmethod
    def pooler_kwargs(cls, backbone_config: PreTrainedConfig) -> dict[str, bool]:
        """Return the arguments that build a backbone without a pooler; {} if the backbone has no such option."""
        backbone_class = MODEL_MAPPING[type(backbone_config)]
        accepts = "add_pooling_layer" in inspect.signature(backbone_class.__init__).parameters
        return {"add_pooling_layer": False} if accepts else {}

    @classmethod
    def backbone_kwargs(cls, backbone_config: PreTrainedConfig) -> dict[str, Any]:
        """Return the arguments with which `from_backbone` loads a model of `backbone_auto_class`."""
        return cls.pooler_kwargs(backbone_config)

    @classmethod
    def _begins_afresh(cls, key: str, backbone: PreTrainedModel) -> bool:
        """Return True for a weight that the checkpoint of a backbone may lack, such as those of the pooler."""
        return key.startswith("pooler.")  # a new one is initialized, as in the stock classes

    def _copy_weights(self, backbone: PreTrainedModel) -> None:
        """Copy the weights of a model of `backbone_auto_class`."""
        # Not strict: modules that the family adds, such as more layers, are not in the state dict.
        self.backbone_model.load_state_dict(backbone.state_dict(), strict=False)

    def _initialize_weights(self, module: nn.Module, is_custom_code: bool = False) -> None:
        # transformers assumes that `_init_weights` outside its package overwrites loaded weights, and skips modules
        # without weights. Ours overwrites nothing and needs those modules: drop `is_custom_code`.
        super()._initialize_weights(module)

    @property
    def saved_pipelines(self) -> dict[str, Any]:
        """The pipelines that this model is saved with, by default those of its class."""
        return self.pipelines

    @property
    def backbone_model(self) -> PreTrainedModel:
        """The backbone, a pretrained model."""
        return self.base_model.backbone

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings of the backbone."""
        return self.backbone_model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings of the backbone."""
        self.backbone_model.set_input_embeddings(value)
        self._freeze_unused()

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Module:
        """Resize the word embeddings, and set the size in the backbone's configuration, which may be a copy."""
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        self.backbone_model.config.vocab_size = self.config.vocab_size
        return embeddings

    def add_base_model(self) -> None:
        """Build the headless model of the family, as the attribute `base_model_prefix`."""
        setattr(self, self.base_model_prefix, self.base_model_class(self.config))
        self.supports_gradient_checkpointing = self.base_model.supports_gradient_checkpointing

    def add_backbone(self) -> None:
        """Build the backbone and detect its numbering of positions."""
        config, dtype = self.config.backbone_config_to_build(), torch.get_default_dtype()
        try:
            self.backbone = self.backbone_auto_class.from_config(config, dtype=dtype, **self.pooler_kwargs(config))
        except AssertionError as error:  # of torch, such as for RoBERTa with a `pad_token_id` beyond the positions
            raise ValueError(f"`backbone_config` is not valid for {config.model_type!r}: {as_line(error)}.") from error
        self._freeze_unused()
        self.supports_gradient_checkpointing = self.backbone.supports_gradient_checkpointing
        inputs = inspect.signature(self.backbone.forward).parameters
        self.takes_position_ids = "position_ids" in inputs
        self.takes_token_type_ids = "token_type_ids" in inputs
        embeddings = getattr(self.backbone, "embeddings", None)
        # RoBERTa and models derived from it count positions from the padding index + 1.
        counts_from_padding = hasattr(embeddings, "create_position_ids_from_input_ids")
        if counts_from_padding and config.pad_token_id is None:
            raise ValueError("`pad_token_id` of `backbone_config` is null, and positions are counted from it: set it.")
        # Untested backbones may count in other ways (Nystromformer): leave positions to them.
        is_known = config.model_type in self.config.tested_backbones or counts_from_padding
        self.sets_position_ids = self.takes_position_ids and is_known
        self.first_position = config.pad_token_id + 1 if counts_from_padding else 0
        table = getattr(embeddings, "position_embeddings", None)
        self.most_tokens: int | None = None
        if is_known and isinstance(table, nn.Embedding):
            self.most_tokens = table.num_embeddings - self.first_position

    def _finalize_loading(self) -> None:
        """Restore what `from_pretrained` resets: frozen parameters, and the dtype of XLNet."""
        self._freeze_unused()
        dtype = self.get_input_embeddings().weight.dtype
        if self.config.backbone_config.model_type == "xlnet" and dtype.is_floating_point:
            self.backbone_model.to(dtype)

    def _note_missing(self, names: Iterable[str]) -> None:
        """Record in the configuration that the backbone's checkpoint lacks optional weights, such as the pooler's."""

    def _freeze_unused(self) -> None:
        """Freeze parameters that never get a gradient, as distributed training fails on them."""
        if self.config.backbone_config.model_type == "xlnet":
            self.backbone_model.mask_emb.requires_grad_(False)  # used only in pretraining

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the parameters that come from the backbone's checkpoint; all others are new.

        The result depends only on the configuration, so training, saving and loading do not change it. Word embeddings
        count as pretrained, with the rows of added tokens.
        """
        fresh = {id(parameter) for module in self.fresh_modules() for parameter in module.parameters()}
        yield from (parameter for parameter in self.backbone_model.parameters() if id(parameter) not in fresh)

    def fresh_modules(self) -> Iterator[nn.Module]:
        """Iterate over the modules of the backbone that are not in its checkpoint."""
        yield from ()

    def new_modules(self) -> list[str]:
        """Return the names of the modules that are not in the backbone's checkpoint: local layers and head.

        An adapter has to train them fully: `LoraConfig(..., modules_to_save=model.new_modules())`.
        """
        return list(_outermost_new(self, {id(parameter) for parameter in self.pretrained_parameters()}))

    def train(self, mode: bool = True) -> LocalAttentionPreTrainedModel:
        """Set the training mode. Warns once if an adapter trains the model, but new modules are frozen."""
        if mode and getattr(self, "peft_config", None):
            self._warn_of_frozen_modules()
        return super().train(mode)

    def _warn_of_frozen_modules(self) -> None:
        """Warn if a module is new and frozen, and other parameters are trainable."""
        frozen = [
            name
            for name in self.new_modules()
            if not any(parameter.requires_grad for parameter in self.get_submodule(name).parameters())
        ]
        if frozen and any(parameter.requires_grad for parameter in self.parameters()):
            logger.warning_once(
                f"The adapter leaves new modules frozen, such as `{frozen[0]}`. Their weights are random if they were "
                "never trained: then pass `modules_to_save=model.new_modules()` to the adapter's configuration."
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        # `load_state_dict` passes a copy; submodules read the names that are set here.
        for pattern, current in self._checkpoint_conversion_mapping.items():
            for name in [name for name in state_dict if re.search(pattern, name)]:
                state_dict[re.sub(pattern, current, name)] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, *args, **kwargs)


def _outermost_new(module: nn.Module, pretrained: set[int], prefix: str = "") -> Iterator[str]:
    """Iterate over the names of the outermost modules without pretrained parameters, given by their `id`."""
    for name, child in module.named_children():
        parameters = {id(parameter) for parameter in child.parameters()}
        # peft cannot wrap lists of modules.
        if parameters and parameters.isdisjoint(pretrained) and not isinstance(child, nn.ModuleList):
            yield prefix + name
        else:
            yield from _outermost_new(child, pretrained, f"{prefix}{name}.")


def register_auto_classes(config_class: type[LocalAttentionConfig], **auto_classes: type[PreTrainedModel]) -> None:
    """Register the class for each Auto class, so that checkpoints have the code and `auto_map` of the family."""
    config_class.register_for_auto_class()
    for auto_class, model_class in auto_classes.items():
        model_class.register_for_auto_class(auto_class)
        served = {
            auto: other for auto, other in auto_classes.items() if other.can_generate() == model_class.can_generate()
        }
        model_class.auto_classes = {
            auto: f"{one.__module__.split('.')[-1]}.{one.__name__}"
            for auto, one in {"AutoConfig": config_class, **served}.items()
        }
