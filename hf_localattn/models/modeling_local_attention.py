"""Base class of all models: running a pretrained backbone, its positions and padding, new and pretrained weights."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn
from transformers import MODEL_MAPPING, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling

from .configuration_local_attention import LocalAttentionConfig


@dataclass
class LocalOutputs:
    """Local-attention fields shared by all outputs.

    Args:
        local_attentions (*optional*): Attention weights of the local layers, one tensor per layer that has weights.
            Returned only with `output_attentions=True`, like the next three fields.
        gates (*optional*): Share of local attention, (B, L) for each layer that mixes local and global attention.
        feature_attention (*optional*): (B, D), weights of the features of a text.
        token_attention (*optional*): (B, L), weights of the tokens of a text.
        local_loss (*optional*): (B,), loss of the local layers, which heads add to the loss of their task. All rows
            have the same number, because pipelines take outputs apart by row. Returned if it can be computed.
    """

    local_attentions: tuple[torch.Tensor, ...] | None = None
    gates: tuple[torch.Tensor, ...] | None = None
    feature_attention: torch.Tensor | None = None
    token_attention: torch.Tensor | None = None
    local_loss: torch.Tensor | None = None


@dataclass
class LocalModelOutput(LocalOutputs, BaseModelOutputWithPooling):
    """Output of a headless model.

    Args:
        last_hidden_state: (B, L, output size), after the local layers.
        pooler_output (*optional*): (B, H), if the family has a pooler.
        hidden_states (*optional*): Hidden states of the backbone, with `output_hidden_states=True`.
        attentions (*optional*): Attention weights of the backbone, with `output_attentions=True`.
    """


def check_inputs(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the given input, `input_ids` (B, L) or `inputs_embeds` (B, L, E). Raise `ValueError` if it is unclear."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Give exactly one of `input_ids` and `inputs_embeds`.")
    states = input_ids if inputs_embeds is None else inputs_embeds
    assert states is not None
    if attention_mask is not None and (attention_mask.dim() != 2 or attention_mask.shape[1] != states.shape[1]):
        raise ValueError(
            f"`attention_mask` has shape {tuple(attention_mask.shape)}; local layers need {tuple(states.shape[:2])}."
        )
    return states


def with_inputs(forward: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Add keyword inputs to the signature of a `forward`: Trainer drops columns that the signature does not name."""

    @functools.wraps(forward)
    def named(self: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
        return forward(self, *args, **kwargs)

    signature = inspect.signature(forward)
    *parameters, rest = signature.parameters.values()
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
    result: Any = named
    result.__signature__ = signature.replace(parameters=[*parameters, rest])
    return result


class LocalAttentionPreTrainedModel(PreTrainedModel):
    """Base class of all models and heads. It builds, initializes, loads and saves them."""

    config_class = LocalAttentionConfig
    supports_gradient_checkpointing = True
    # Allow all here: the backbone, also a `PreTrainedModel`, raises for an implementation that it does not support.
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True

    base_model_class: ClassVar[type[PreTrainedModel]]
    """Headless model of the family. Heads have it as the attribute `base_model_prefix`."""

    backbone_auto_class: ClassVar[Any] = AutoModel
    """Auto class of the backbone."""

    token_inputs: ClassVar[tuple[str, ...]] = ()
    """Names of the family's additional inputs with one value per token. Heads pass them on to the base model."""

    selects_encoder_states: ClassVar[bool] = False
    """True if layers on top of the encoder read the states that `encoder_states` selects."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inputs = set(inspect.signature(cls.forward).parameters)
        if "input_ids" in inputs and not set(cls.token_inputs) <= inputs:
            cls.forward = with_inputs(cls.forward, *cls.token_inputs)

    def __init__(self, config: LocalAttentionConfig):
        self.config_class.installed.check_model(type(self), config)
        super().__init__(config)
        self.add_model_tags(["hf_localattn", config.model_type])  # to filter by on the Hub
        folder = str(Path(__file__).parent)
        if config.code_folder != folder:
            config.code_folder = folder

    @classmethod
    def from_backbone(cls, name_or_path: str | os.PathLike[str], **arguments: Any) -> Self:
        """Build a model from a pretrained backbone, with new local layers and a new head.

        Args:
            name_or_path: Hub id or folder of the backbone, with safetensors weights; or "tiny" or "tiny-bart", small
                ones.
            **arguments: Fields of the family's configuration; `num_labels`, `id2label`, `label2id` or `problem_type`;
                and as in `from_pretrained`: `cache_dir`, `revision`, `token`, `local_files_only`, `subfolder`,
                `dtype`, `device_map` (one device) and `attn_implementation`.

        Returns:
            The model, in evaluation mode.

        Raises:
            ImportError: The class comes from a checkpoint and not from the package.
            ValueError: A field is unknown or has an invalid value, or the backbone is not supported.
            OSError: The backbone cannot be loaded, or has no safetensors weights.
        """
        return cls.config_class.installed.build_model(cls, name_or_path, **arguments)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *model_args: Any, **kwargs: Any) -> Self:
        """Load a model as in transformers."""
        wants_report = kwargs.pop("output_loading_info", False)
        with cls.config_class.installed.loading(pretrained_model_name_or_path, kwargs):
            loaded, report = super().from_pretrained(
                pretrained_model_name_or_path, *model_args, output_loading_info=True, **kwargs
            )
        loaded._finalize_loading()
        loaded.on_missing_keys(report["missing_keys"])
        # transformers would look for the files of a pipeline in the model object.
        vars(loaded.config).pop("custom_pipelines", None)
        return (loaded, report) if wants_report else loaded  # type: ignore[return-value]

    @classmethod
    def is_remote_code(cls) -> bool:
        """Return False, so that transformers saves no code: the configuration does."""
        return False

    @classmethod
    def pooler_kwargs(cls, backbone_config: PreTrainedConfig) -> dict[str, bool]:
        """Return the arguments that build a backbone without a pooler; {} if the backbone has no such option."""
        backbone_class = MODEL_MAPPING[type(backbone_config)]
        accepts = "add_pooling_layer" in inspect.signature(backbone_class.__init__).parameters
        return {"add_pooling_layer": False} if accepts else {}

    @classmethod
    def is_custom_code(cls) -> bool:
        """Return False, so that `_init_weights` is called on modules without weights, too.

        Others' code may overwrite loaded weights there; that of this package does not.
        """
        return False

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        initialize = getattr(module, "initialize", None)
        if callable(initialize):  # a layer that sets initial weights of its own
            initialize()

    @property
    def backbone_model(self) -> PreTrainedModel:
        """The backbone, a pretrained model."""
        return self.base_model.backbone

    def get_input_embeddings(self) -> nn.Module:
        return self.backbone_model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.backbone_model.set_input_embeddings(value)
        self._freeze()

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
        """Check the configuration, build the backbone and detect its numbering of positions."""
        self.config.normalize()
        self.config.check()
        if self.config.encoder_states != "last" and not self.selects_encoder_states:
            raise ValueError(
                f"`encoder_states` is {self.config.encoder_states!r}, but {type(self).__name__} has no layers on top"
                " of its encoder: set it to 'last'."
            )
        config = self.config.backbone_config_to_build()
        self.backbone = self.backbone_auto_class.from_config(
            config, dtype=torch.get_default_dtype(), **self.pooler_kwargs(config)
        )
        self._freeze()
        self.supports_gradient_checkpointing = self.backbone.supports_gradient_checkpointing
        inputs = inspect.signature(self.backbone.forward).parameters
        self.takes_position_ids = "position_ids" in inputs
        self.takes_token_type_ids = "token_type_ids" in inputs
        embeddings: Any = getattr(self.backbone, "embeddings", None)
        # RoBERTa, MPNet and models derived from them count positions from the padding index + 1.
        counts_from_padding = hasattr(embeddings, "create_position_ids_from_inputs_embeds")
        # Untested backbones may count in other ways (Nystromformer): leave positions to them.
        is_known = config.model_type in self.config.tested_backbones or counts_from_padding
        self.sets_position_ids = self.takes_position_ids and is_known
        self.first_position = embeddings.padding_idx + 1 if counts_from_padding else 0

    def _finalize_loading(self) -> None:
        """Restore what `from_pretrained` resets: frozen parameters, and the dtype of XLNet."""
        self._freeze()
        dtype = self.get_input_embeddings().weight.dtype
        if self.config.backbone_config.model_type == "xlnet" and dtype.is_floating_point:
            self.backbone_model.to(dtype)

    def on_missing_keys(self, names: Iterable[str]) -> None:
        """Record in the configuration that the backbone's checkpoint lacks optional weights, such as the pooler's."""

    def _freeze(self) -> None:
        """Freeze the parameters that are not trained.

        These never get a gradient, on which distributed training would fail, or the configuration freezes them.
        """
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

    def forward_backbone(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        *,
        layer_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Run the backbone. Padding on either side does not change its output.

        If `layer_mask` is given, the layers get this 4D mask in place of the one that the backbone would build.
        """
        states = check_inputs(input_ids, inputs_embeds, attention_mask)
        if attention_mask is not None:
            attention_mask = (attention_mask != 0).long()  # XLNet cannot calculate with a boolean mask
            if position_ids is None and self.sets_position_ids:
                position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0) + self.first_position
        if token_type_ids is None and self.config.backbone_config.model_type == "xlnet":
            # XLNet skips its segment embeddings if there are no ids. They would then get no gradient.
            token_type_ids = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
        if self.takes_position_ids and position_ids is not None:
            kwargs["position_ids"] = position_ids
        if self.takes_token_type_ids and token_type_ids is not None:
            kwargs["token_type_ids"] = token_type_ids
        return self.backbone(
            input_ids=input_ids,
            attention_mask=attention_mask if layer_mask is None else layer_mask,
            inputs_embeds=inputs_embeds,
            **{**kwargs, "return_dict": True},
        )

    def classification_token(self, states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Return the state of the classification token (B, F): the first token without padding, the last in XLNet."""
        is_last = self.config.backbone_config.model_type == "xlnet"
        if attention_mask is None:
            return states[:, -1 if is_last else 0]
        mask = (attention_mask != 0).to(states.device, torch.int64)
        position = states.shape[1] - 1 - mask.flip(-1).argmax(-1) if is_last else mask.argmax(-1)
        return states[torch.arange(states.shape[0], device=states.device), position]

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Return the features of each sequence (B, F) that heads classify."""
        return self.classification_token(outputs.last_hidden_state, attention_mask)

    def resolve_output_flags(self, kwargs: dict[str, Any]) -> None:
        """Set `output_attentions` and `output_hidden_states` in `kwargs`, unless given, from the configuration."""
        for output in ("output_attentions", "output_hidden_states"):
            if kwargs.get(output) is None:
                kwargs[output] = getattr(self.config, output)
        kwargs["output_attentions"] = bool(kwargs["output_attentions"])


def _outermost_new(module: nn.Module, pretrained: set[int], prefix: str = "") -> Iterator[str]:
    """Iterate over the names of the outermost modules without pretrained parameters, given by their `id`."""
    for name, child in module.named_children():
        parameters = {id(parameter) for parameter in child.parameters()}
        # peft cannot wrap lists of modules.
        if parameters and parameters.isdisjoint(pretrained) and not isinstance(child, nn.ModuleList):
            yield prefix + name
        else:
            yield from _outermost_new(child, pretrained, f"{prefix}{name}.")
