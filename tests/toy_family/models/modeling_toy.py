"""The toy family: window attention on top of an encoder."""

from typing import Any

import torch
from torch import nn

from .configuration_toy import ToyConfig
from .masking import ensure_nonempty_mask
from .modeling_local_attention import LocalAttentionPreTrainedModel
from .modeling_on_encoder import ModelOnEncoder
from .task_heads import SequenceClassificationHead
from .toy_attention import WindowAttention


class ToyPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of the toy models."""

    config_class = ToyConfig
    base_model_prefix = "toy"
    _no_split_modules = ["WindowAttention"]  # noqa: RUF012 (transformers' own type)


class ToyModel(ToyPreTrainedModel, ModelOnEncoder):
    """The encoder with window attention, without a head."""

    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.add_backbone()
        self.layers = nn.ModuleList(
            WindowAttention(config.encoder_size, config.toy_window) for _ in range(config.num_toy_layers)
        )
        self.post_init()

    def forward_layers(
        self, states: torch.Tensor, mask: torch.Tensor | None, output_attentions: bool
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the states (B, L, H) of all tokens, and the weights of each layer."""
        mask = ensure_nonempty_mask(mask)
        weights = []
        for layer in self.layers:
            states, own = layer(states, mask)
            weights.append(own)
        return states, {"local_attentions": tuple(weights) if output_attentions else None}


ToyPreTrainedModel.base_model_class = ToyModel


class ToyForSequenceClassification(ToyPreTrainedModel, SequenceClassificationHead):
    """The toy model with a classifier of texts on top."""
