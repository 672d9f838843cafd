"""Masked language modeling with the backbone's own head, whose pretrained weights are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput
from transformers.utils import can_return_tuple

from .backbone_features import LocalOutputs, selected_states
from .backbone_head import build_reference_head
from .input_checks import IGNORED, WHOLE, check_numbers
from .modeling_local_attention import LocalAttentionPreTrainedModel
from .task_heads import extra_outputs


@dataclass
class LocalMaskedLMOutput(LocalOutputs, MaskedLMOutput):
    """Output of a masked-language-model head."""


class GivenStates(nn.Module):
    """Stand-in for the encoder inside transformers' class: returns the states that it is given."""

    def forward(self, *args: Any, inputs_embeds: torch.Tensor, **kwargs: Any) -> BaseModelOutput:
        """Return `inputs_embeds` (B, L, H) as the last hidden state."""
        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedLMHead(LocalAttentionPreTrainedModel):
    """Logits of the vocabulary for each token, by the head of transformers' masked language model for the backbone.

    The output layer is tied to the word embeddings if `tie_word_embeddings` of the backbone's configuration is True.
    Features of another width than the backbone's are projected to its width.
    """

    backbone_auto_class = AutoModelForMaskedLM

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        self.masked_lm_projection: nn.Linear | None = None
        size = config.backbone_config.hidden_size
        if config.mlm_residual or config.output_size != size:
            self.masked_lm_projection = nn.Linear(config.output_size, size)
        with init.no_init_weights():  # `post_init` below does it
            self.masked_lm = build_reference_head(
                MODEL_FOR_MASKED_LM_MAPPING, config.backbone_config, keeps_vocabulary=True
            )
        self.masked_lm.config = config.backbone_config  # with the layers, on which ModernBERT's initialization depends
        self._tie_to_backbone(self.masked_lm)
        self.post_init()

    def _tie_to_backbone(self, stock: PreTrainedModel) -> None:
        """Replace the encoder of transformers' class by a stand-in, and tie the head to the backbone instead."""
        encoder, ours = f"{stock.base_model_prefix}.", f"{self.base_model_prefix}.backbone."

        def name_here(name: str) -> str:
            return f"{ours}{name.removeprefix(encoder)}" if name.startswith(encoder) else f"masked_lm.{name}"

        tied = {name_here(target): name_here(source) for target, source in (stock._tied_weights_keys or {}).items()}
        self._tied_weights_keys = tied
        stock._tied_weights_keys, stock.all_tied_weights_keys = {}, {}
        setattr(stock, stock.base_model_prefix, GivenStates())

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if self.config.mlm_residual and module is self.masked_lm_projection:
            init.zeros_(module.weight)
            init.zeros_(module.bias)

    @classmethod
    def validate_architecture(cls, backbone_config: PreTrainedConfig) -> None:
        super().validate_architecture(backbone_config)
        kind = backbone_config.model_type
        if type(backbone_config) not in MODEL_FOR_MASKED_LM_MAPPING:
            able = [name for name in cls.config_class.tested_backbones if name != "xlnet"]
            raise ValueError(
                f"{cls.__name__} needs a backbone with a masked language model, and transformers has none for "
                f"{kind!r}: use another one, such as {', '.join(able)}."
            )
        if not getattr(backbone_config, "legacy", True):
            raise ValueError(
                f"{cls.__name__} does not support `legacy=False` of the backbone {kind!r}, whose head reads the word "
                "embeddings by itself: use a backbone with `legacy=True`."
            )

    @classmethod
    def backbone_kwargs(cls, backbone_config: PreTrainedConfig) -> dict[str, Any]:
        return {}  # transformers' masked language models have no option for a pooler

    @classmethod
    def _begins_afresh(cls, key: str, backbone: PreTrainedModel) -> bool:
        return not key.startswith(f"{backbone.base_model_prefix}.")  # transformers warns of a new head

    def _copy_weights(self, backbone: PreTrainedModel) -> None:
        encoder = f"{backbone.base_model_prefix}."
        head = {name: value for name, value in backbone.state_dict().items() if not name.startswith(encoder)}
        self.masked_lm.load_state_dict(head)
        super()._copy_weights(backbone.base_model)

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the parameters that come from the backbone's checkpoint, with those of its head."""
        backbone = list(super().pretrained_parameters())
        known = {id(parameter) for parameter in backbone}
        yield from backbone
        yield from (parameter for parameter in self.masked_lm.parameters() if id(parameter) not in known)

    def get_output_embeddings(self) -> nn.Module:
        """Return the output layer of the backbone's head."""
        return self.masked_lm.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the output layer of the backbone's head."""
        self.masked_lm.set_output_embeddings(new_embeddings)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Any,
    ) -> LocalMaskedLMOutput:
        """Compute logits (B, L, vocabulary size).

        Args:
            input_ids (*optional*): (B, L). Give either these or `inputs_embeds`.
            attention_mask (*optional*, defaults to all ones): (B, L), 1 at real tokens, 0 at padding on either side.
            token_type_ids (*optional*): (B, L), segment ids.
            position_ids (*optional*): (B, L). By default tokens are numbered without padding.
            inputs_embeds (*optional*): (B, L, E).
            labels (*optional*): (B, L), ids of the original tokens. The loss ignores -100.
            num_items_in_batch (*optional*): Divisor of the loss. By default the loss is a mean.
            **kwargs: Inputs of the family, `output_attentions`, `output_hidden_states` and the like.
        """
        self.resolve_output_flags(kwargs)
        asked_for = kwargs["output_hidden_states"]
        if self.config.mlm_residual:
            kwargs["output_hidden_states"] = True
        outputs = self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **{**kwargs, "return_dict": True},
        )
        features, more = outputs.last_hidden_state, extra_outputs(outputs)
        if self.masked_lm_projection is not None:
            features = self.masked_lm_projection(features)
        if self.config.mlm_residual:
            features = outputs.hidden_states[-1] + features
            more["hidden_states"] = selected_states(outputs.hidden_states, asked_for)
        logits = self.masked_lm(inputs_embeds=features, return_dict=True).logits
        loss = None
        if labels is not None:
            known = {"dtypes": WHOLE[:1], "rows": logits.shape[-1], "ignored": IGNORED}
            check_numbers("labels", labels, logits.shape[:2], **known)
            loss_kwargs = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(logits, labels, vocab_size=logits.shape[-1], **loss_kwargs)
            share = 1.0 if num_items_in_batch is None else (labels != -100).sum() / num_items_in_batch
            loss = self.training_loss(loss, outputs, share)
        return LocalMaskedLMOutput(loss=loss, logits=logits, **more)
