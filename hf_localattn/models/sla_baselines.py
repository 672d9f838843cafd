"""Models with SG-Net, a baseline of syntax-aware local attention: syntax-guided layers on top of the encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from .modeling_sla_bert import (
    TOP_LAYERS,
    SlaBertForMaskedLM,
    SlaBertForMultipleChoice,
    SlaBertForQuestionAnswering,
    SlaBertForSequenceClassification,
    SlaBertForTokenClassification,
    SlaBertModel,
)
from .sla_self_attention import LocalAttentionRecord, localize

__all__ = [
    "SlaBertForMaskedLM",
    "SlaBertForMultipleChoice",
    "SlaBertForQuestionAnswering",
    "SlaBertForSequenceClassification",
    "SlaBertForTokenClassification",
    "SlaBertModel",
]


class SyntaxGuidedLayer(nn.Module):
    """One or more encoder layers with masked attention, whose output is mixed with their input.

    The weights of the mixture are a softmax over two learned numbers, initially equal.

    Source: SG-Net (Zhang et al., 2020), a baseline in section 4.1 of the SLA paper.

    Args:
        backbone: The encoder, which determines the class and the sizes of the layers.
        num_layers (*optional*, defaults to 1): Number of layers.
    """

    def __init__(self, backbone: PreTrainedModel, num_layers: int = 1):
        super().__init__()
        below = backbone.encoder.layer
        layers = [type(below[0])(backbone.config, layer_idx=len(below) + number) for number in range(num_layers)]
        localize([layer.attention.self for layer in layers])
        # The first layer has its own name, as in checkpoints that were saved when there was only one.
        self.layer, self.further_layers = layers[0], nn.ModuleList(layers[1:])
        self.mixture = nn.Parameter(torch.zeros(2))

    def forward(self, states: torch.Tensor, mask: Any, record: LocalAttentionRecord) -> torch.Tensor:
        """Map states (B, L, H) to states (B, L, H), with a mask from `prepared_mask`."""
        guided = states
        for layer in (self.layer, *self.further_layers):
            guided = layer(guided, mask, record=record, is_local=True)
        of_encoder, of_syntax = self.mixture.softmax(0)
        return of_encoder * states + of_syntax * guided


TOP_LAYERS["sgnet"] = SyntaxGuidedLayer
