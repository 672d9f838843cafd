"""SAM: a pretrained encoder with attention over the features and the tokens of a text.

Source: Sequential Attention Module for Natural Language Processing (Zhou et al.), sections 3 and 4.1.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import nn

from .configuration_sam_roberta import SamRobertaConfig
from .fields_sam_roberta import BASELINES
from .masking import ensure_nonempty_mask, masked_mean
from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput, check_inputs
from .modeling_on_encoder import ModelOnEncoder
from .sam_attention import SequentialAttention
from .sam_bilstm import RecurrentEncoder
from .task_heads import (
    MaskedLMHead,
    MultipleChoiceHead,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)

POOLING_LAYERS: dict[str, Callable[[SamRobertaConfig], nn.Module]] = {}
"""Layers of the baselines, by `pooling`; sam_baselines.py adds them. Each pools texts and weights tokens."""


class SamRobertaPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of SAM's models: configuration, names, initialization and frozen backbone."""

    config_class = SamRobertaConfig
    base_model_prefix = "sam"
    _no_split_modules = ["RecurrentEncoder", "SequentialAttention", "RecurrentAttention", "DiSAN"]  # noqa: RUF012

    def _freeze(self) -> None:
        super()._freeze()
        self.base_model.backbone_is_frozen = self.config.freeze_backbone
        if self.config.freeze_backbone:
            self.backbone_model.requires_grad_(False).eval()

    def _finalize_loading(self) -> None:
        super()._finalize_loading()
        for module in self.modules():
            if isinstance(module, nn.LSTM):
                module.flatten_parameters()  # loading leaves the weights in separate memory

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        assert outputs.pooler_output is not None
        return outputs.pooler_output

    def new_classifier(self, num_outputs: int) -> nn.Module:
        """Build the classifier of pooled texts, dropout and one linear layer (section 3.4)."""
        output = nn.Linear(self.config.hidden_size, num_outputs)
        return nn.Sequential(OrderedDict(dropout=nn.Dropout(self.config.classifier_dropout), output=output))


class SamRobertaModel(SamRobertaPreTrainedModel, ModelOnEncoder):
    """The encoder with a BiLSTM and sequential attention, or a baseline, without a task head."""

    def __init__(self, config: SamRobertaConfig):
        super().__init__(config)
        self.add_backbone()
        self.bilstm: RecurrentEncoder | None = None
        if config.has_bilstm:
            self.bilstm = RecurrentEncoder(
                config.encoder_size,
                config.bilstm_hidden_size,
                config.num_bilstm_layers,
                config.bilstm_merge,
                config.dropout,
            )
        self.sequential_attention = SequentialAttention(config) if config.pooling == "sam" else None
        self.pooling_attention: nn.Module | None = None
        if config.pooling in BASELINES:
            self.pooling_attention = config.choose_layer("pooling", POOLING_LAYERS)(config)
        self.post_init()

    def train(self, mode: bool = True) -> Self:
        """Set the training mode. A frozen backbone stays in evaluation mode. Applies changes of `freeze_backbone`."""
        super().train(mode)
        if self.config.freeze_backbone != self.backbone_is_frozen:  # keep parts that the user has frozen
            self.backbone.requires_grad_(not self.config.freeze_backbone)
            self._freeze()
        if self.config.freeze_backbone:
            self.backbone.eval()
        return self

    def start_layers(
        self, inputs: dict[str, Any], mask: torch.Tensor | None, output_attentions: bool, **further: Any
    ) -> dict[str, Any]:
        """Check the length of the texts."""
        self.check_length(check_inputs(inputs["input_ids"], inputs["inputs_embeds"]).shape[1], mask)
        return {}

    def forward_layers(
        self, states: torch.Tensor, mask: torch.Tensor | None, output_attentions: bool, **started: Any
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the states (B, L, D) of all tokens, and a vector (B, D) of each text as `pooler_output`.

        If tokens are weighted, the vector is the weighted sum of the tokens. The states are then multiplied by the
        weights and the number of tokens, so that the mean weight is 1.

        With `output_attentions` there are `feature_attention` (B, D) and `token_attention` (B, L), if the model
        computes them.
        """
        mask = ensure_nonempty_mask(mask)
        if self.bilstm is not None:
            states = self.bilstm(states, mask)
        features = tokens = None
        if self.pooling_attention is not None:
            pooled, states, tokens = self.pooling_attention(states, mask)
        else:
            if self.sequential_attention is not None:
                states, features, tokens = self.sequential_attention(states, mask)
            pooled = masked_mean(states, mask) if tokens is None else states.sum(1)
        if self.pooling_attention is not None or self.config.has_tam:  # their states have the factor of the weights
            length = states.shape[1] if mask is None else mask.sum(-1)[:, None, None].to(states.dtype)
            states = states * length
        more: dict[str, Any] = {"pooler_output": pooled, "local_attentions": () if output_attentions else None}
        if output_attentions:
            more |= {"feature_attention": features, "token_attention": tokens}
        return states, more

    def check_length(self, length: int, mask: torch.Tensor | None) -> None:
        """Raise `ValueError` if a text has more tokens than the network over positions has positions.

        Padding counts only in compiled and exported graphs, because these cannot depend on the mask.
        """
        limit = self.config.max_tokens
        if limit is None or length <= limit:  # usual case, without synchronization with the device
            return
        if mask is not None and not torch.compiler.is_compiling():
            length = int(mask.sum(-1).max())
        if length > limit:
            raise ValueError(
                f"`tam_max_length` is {limit}, but a text has {length} tokens. Truncate texts to that length "
                "(`truncation=True` and `max_length` of the tokenizer), set a larger `tam_max_length` before training,"
                " or use `tam_ffn='token'`, which takes any length."
            )


SamRobertaPreTrainedModel.base_model_class = SamRobertaModel


class SamRobertaForQuestionAnswering(SamRobertaPreTrainedModel, QuestionAnsweringHead):
    """SAM with a span prediction head for extractive question answering."""


class SamRobertaForSequenceClassification(SamRobertaPreTrainedModel, SequenceClassificationHead):
    """SAM with a classification or regression head for texts and pairs of texts (section 3.4)."""


class SamRobertaForTokenClassification(SamRobertaPreTrainedModel, TokenClassificationHead):
    """SAM with a token classification head."""


class SamRobertaForMultipleChoice(SamRobertaPreTrainedModel, MultipleChoiceHead):
    """SAM with a multiple choice head."""


class SamRobertaForMaskedLM(SamRobertaPreTrainedModel, MaskedLMHead):
    """SAM with the masked-language-model head of the backbone."""
