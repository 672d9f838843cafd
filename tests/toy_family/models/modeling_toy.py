"""The toy family: window attention on top of an encoder."""

from typing import Any

import torch
from torch import nn
from transformers.utils import can_return_tuple

from .configuration_toy import ToyConfig
from .masking import ensure_nonempty_mask
from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput
from .task_heads import SequenceClassificationHead
from .toy_attention import WindowAttention


class ToyPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of the toy models."""

    config_class = ToyConfig
    base_model_prefix = "toy"
    _no_split_modules = ["WindowAttention"]  # noqa: RUF012 (transformers' own type)


class ToyModel(ToyPreTrainedModel):
    """The encoder with window attention, without a head."""

    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.add_backbone()
        self.layers = nn.ModuleList(
            WindowAttention(config.backbone_config.hidden_size, config.toy_window)
            for _ in range(config.num_toy_layers)
        )
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """States (B, L, H) of every token."""
        self.resolve_output_flags(kwargs)
        outputs = self.forward_backbone(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs
        )
        states, weights = outputs.last_hidden_state, []
        mask = None if attention_mask is None else ensure_nonempty_mask(attention_mask != 0)
        for layer in self.layers:
            states, own = layer(states, mask)
            weights.append(own)
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=tuple(weights) if kwargs["output_attentions"] else None,
        )


ToyPreTrainedModel.base_model_class = ToyModel


class ToyForSequenceClassification(ToyPreTrainedModel, SequenceClassificationHead):
    """The toy model with a classifier of texts on top."""
