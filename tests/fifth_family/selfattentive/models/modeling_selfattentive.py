"""An encoder with structured self-attentive embeddings of texts."""

from typing import Any

import torch
from torch import nn

from .configuration_selfattentive import SelfAttentiveConfig
from .masking import ensure_nonempty_mask
from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput
from .modeling_on_encoder import ModelOnEncoder
from .sam_bilstm import RecurrentEncoder
from .structured_attention import StructuredAttention, redundancy
from .task_heads import MultipleChoiceHead, SequenceClassificationHead


class SelfAttentivePreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of self-attentive models."""

    config_class = SelfAttentiveConfig
    base_model_prefix = "selfattentive"
    _no_split_modules = ["RecurrentEncoder", "StructuredAttention"]  # noqa: RUF012 (transformers' own type)

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        return outputs.pooler_output


class SelfAttentiveModel(SelfAttentivePreTrainedModel, ModelOnEncoder):
    """The encoder with embeddings of texts, without a head."""

    def __init__(self, config: SelfAttentiveConfig):
        super().__init__(config)
        self.add_backbone()
        size = config.output_size
        self.bilstm = RecurrentEncoder(config.encoder_size, config.bilstm_hidden_size) if config.use_bilstm else None
        self.attention = StructuredAttention(size, config.attention_size, config.hops)
        self.projection = nn.Linear(config.hops * size, size)
        self.post_init()

    def forward_layers(
        self, states: torch.Tensor, mask: torch.Tensor | None, output_attentions: bool, **started: Any
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the states (B, L, D), and an embedding (B, D) of each text as `pooler_output`."""
        mask = ensure_nonempty_mask(mask)
        if self.bilstm is not None:
            states = self.bilstm(states, mask)
        embeddings, weights = self.attention(states, mask)
        loss = None
        if self.config.penalty:  # `len(states)` would tie an export to the batch of its example
            loss = (self.config.penalty * redundancy(weights)).expand(states.shape[0])
        return states, {
            "pooler_output": self.projection(embeddings.flatten(1)).relu(),
            "local_attentions": (weights,) if output_attentions else None,
            "local_loss": loss,
        }


SelfAttentivePreTrainedModel.base_model_class = SelfAttentiveModel


class SelfAttentiveForSequenceClassification(SelfAttentivePreTrainedModel, SequenceClassificationHead):
    """The self-attentive model with a classifier of texts on top."""


class SelfAttentiveForMultipleChoice(SelfAttentivePreTrainedModel, MultipleChoiceHead):
    """The self-attentive model with a classifier of choices on top."""
