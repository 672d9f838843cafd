"""Heads of transformers' task classes, for families and tasks that keep them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from .task_heads import build_reference_head as build_reference_head


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
