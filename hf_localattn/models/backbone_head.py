"""The classifiers of transformers' own task classes, for families that keep them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel


def build_reference_head(mapping: Any, backbone_config: PreTrainedConfig, num_labels: int = 1) -> PreTrainedModel:
    """Build the stock task class of a backbone, without layers and almost without words: for what is around them.

    Args:
        mapping: from configurations to classes, such as transformers' `MODEL_FOR_MULTIPLE_CHOICE_MAPPING`.
        backbone_config: of the backbone.
        num_labels: of the task.

    Raises:
        ValueError: the backbone has no such class.
    """
    config = copy.deepcopy(backbone_config)
    if type(config) not in mapping:
        raise ValueError(f"transformers has no such task class for the backbone {config.model_type!r}.")
    config.num_hidden_layers, config.vocab_size = 0, (config.pad_token_id or 0) + 1
    config.num_labels = num_labels
    return mapping[type(config)](config)


class BackboneHead(nn.Module):
    """The classification head of a stock task class for sequences or choices.

    Args:
        stock: that class, from `build_reference_head`.
    """

    def __init__(self, stock: PreTrainedModel):
        super().__init__()
        for name, module in stock.named_children():
            if name != stock.base_model_prefix:
                self.add_module(name, module)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, H), the pooler's where the class has one, else the first token's, to logits (B, labels)."""
        parts: dict[str, Any] = dict(self.named_children())
        tokens = features.unsqueeze(1)  # some pick the first token themselves
        if "sequence_summary" in parts:  # ELECTRA's choices
            return parts["classifier"](parts["sequence_summary"](tokens))
        if isinstance(parts["classifier"], nn.Linear):  # BERT's, on its pooler
            return parts["classifier"](parts["dropout"](features))
        return parts["classifier"](tokens)
