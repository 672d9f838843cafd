"""Heads of transformers' task classes, for families and tasks that keep them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel


def build_reference_head(
    mapping: Any, backbone_config: PreTrainedConfig, num_labels: int = 1, keeps_vocabulary: bool = False
) -> PreTrainedModel:
    """Build transformers' task class of a backbone with zero layers and a minimal vocabulary, to reuse its head.

    Args:
        mapping: Mapping from configurations to classes, such as `MODEL_FOR_MULTIPLE_CHOICE_MAPPING`.
        backbone_config: Configuration of the backbone.
        num_labels (*optional*, defaults to 1): Number of labels of the task.
        keeps_vocabulary (*optional*, defaults to False): Keep the size of the vocabulary, for a head that predicts it.

    Returns:
        The model, with random weights.

    Raises:
        ValueError: If transformers has no such class for the backbone.
    """
    config = copy.deepcopy(backbone_config)
    if type(config) not in mapping:
        raise ValueError(f"transformers has no such task class for the backbone {config.model_type!r}.")
    config.num_hidden_layers, config.num_labels = 0, num_labels
    if not keeps_vocabulary:
        config.vocab_size = (config.pad_token_id or 0) + 1
    return mapping[type(config)](config)


class BackboneHead(nn.Module):
    """Classification head of transformers' task class for sequences or choices.

    Args:
        stock: Model with the head, from `build_reference_head`.
    """

    def __init__(self, stock: PreTrainedModel):
        super().__init__()
        for name, module in stock.named_children():
            if name != stock.base_model_prefix:
                # Not "classifier": peft wraps every module with this ending, and cannot load one inside another.
                self.add_module("head" if name == "classifier" else name, module)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, H) to logits (B, num_labels).

        Features come from the pooler if the class has one, else from the first token.
        """
        parts: dict[str, Any] = dict(self.named_children())
        tokens = features.unsqueeze(1)  # some heads select the first token themselves
        if "sequence_summary" in parts:  # ELECTRA's multiple choice head
            return parts["head"](parts["sequence_summary"](tokens))
        if "dropout" in parts:  # BERT's head, after the pooler
            return parts["head"](parts["dropout"](features))
        return parts["head"](tokens)
