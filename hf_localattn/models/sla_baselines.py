"""SG-Net, a baseline of syntax-aware local attention: one syntax-guided layer on top of the encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from .sla_self_attention import LocalAttentionRecord, localize


class SyntaxGuidedLayer(nn.Module):
    """One more encoder layer with masked attention, whose output is mixed with its input.

    The weights of the mixture are a softmax over two learned numbers, initially equal.

    Source: SG-Net (Zhang et al., 2020), a baseline in section 4.1 of the SLA paper.

    Args:
        backbone: The encoder, which determines the class and the sizes of the layer.
    """

    def __init__(self, backbone: PreTrainedModel):
        super().__init__()
        layers = backbone.encoder.layer
        self.layer = type(layers[0])(backbone.config, layer_idx=len(layers))
        localize([self.layer.attention.self])
        self.mixture = nn.Parameter(torch.zeros(2))

    def forward(self, states: torch.Tensor, mask: Any, record: LocalAttentionRecord) -> torch.Tensor:
        """Map states (B, L, H) to states (B, L, H), with a mask from `prepared_mask`."""
        guided = self.layer(states, mask, record=record, is_local=True)
        of_encoder, of_syntax = self.mixture.softmax(0)
        return of_encoder * states + of_syntax * guided
