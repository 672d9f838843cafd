"""SAM: attention over the features and over the tokens of a text, on top of a pretrained encoder.

Source: Sequential Attention Module for Natural Language Processing (Zhou et al.), sections 3 and 4.1.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import nn
from transformers.utils import can_return_tuple

from .backbone_features import LocalModelOutput, check_inputs
from .configuration_sam_roberta import SamRobertaConfig
from .masking import ensure_nonempty_mask, masked_mean
from .modeling_local_attention import LocalAttentionPreTrainedModel, register_auto_classes
from .sam_attention import SequentialAttention, check_length
from .sam_baselines import DiSAN, RecurrentAttention
from .sam_bilstm import RecurrentEncoder
from .task_heads import MultipleChoiceHead, QuestionAnsweringHead, SequenceClassificationHead, TokenClassificationHead


class SamRobertaPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of SAM's models: configuration, names, initialization, and the frozen backbone."""

    config_class = SamRobertaConfig
    base_model_prefix = "sam"
    _no_split_modules = [  # noqa: RUF012 (transformers' own type)
        "RecurrentEncoder",
        "SequentialAttention",
        "RecurrentAttention",
        "DiSAN",
    ]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, RecurrentEncoder | SequentialAttention | RecurrentAttention | DiSAN):
            # As torch starts them, at the scale of their input: from the encoders' small normal numbers the networks
            # of both attentions, which are narrow and two layers deep, would hardly get going.
            for part in module.modules():
                if callable(reset := getattr(part, "reset_parameters", None)):
                    reset()

    def _freeze_unused(self) -> None:
        super()._freeze_unused()
        self.base_model.backbone_is_frozen = self.config.freeze_backbone
        if self.config.freeze_backbone:
            self.backbone_model.requires_grad_(False).eval()

    def _finalize_loading(self) -> None:
        super()._finalize_loading()
        for module in self.modules():
            if isinstance(module, nn.LSTM):
                module.flatten_parameters()  # loading has put each weight where it liked

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        assert outputs.pooler_output is not None
        return outputs.pooler_output

    def classification_head(self, num_outputs: int) -> nn.Module:
        """Build the classifier of a text's vector: dropout and one linear layer (section 3.4)."""
        output = nn.Linear(self.base_model.output_size, num_outputs)
        return nn.Sequential(OrderedDict(dropout=nn.Dropout(self.config.classifier_dropout), output=output))


class SamRobertaModel(SamRobertaPreTrainedModel):
    """The encoder with a BiLSTM and sequential attention, or what these are compared with, without a head."""

    def __init__(self, config: SamRobertaConfig):
        super().__init__(config)
        self.add_backbone()
        size = config.encoded_size
        self.bilstm = None
        if config.has_bilstm:
            self.bilstm = RecurrentEncoder(
                config.hidden_size,
                config.bilstm_hidden_size,
                config.num_bilstm_layers,
                config.dropout,
                config.bilstm_merge,
            )
        self.sequential_attention: SequentialAttention | None = None
        self.pooling_attention: RecurrentAttention | DiSAN | None = None
        if config.pooling == "sam":
            self.sequential_attention = SequentialAttention(
                size,
                config.attention_order,
                config.use_fam,
                config.use_tam,
                reduction=config.fam_reduction,
                threshold=config.fam_threshold,
                learn_threshold=config.learn_fam_threshold,
                ffn=config.tam_ffn,
                max_length=config.tam_max_length,
                hidden_size=config.tam_hidden_size,
            )
        elif config.pooling == "rba":
            self.pooling_attention = RecurrentAttention(size)
        elif config.pooling == "disan":
            self.pooling_attention = DiSAN(size, config.disan_hidden_size)
        self.output_size = size if self.pooling_attention is None else self.pooling_attention.output_size
        self.post_init()

    def train(self, mode: bool = True) -> SamRobertaModel:
        """As torch's own; a frozen backbone stays in evaluation, and `freeze_backbone`, if set anew, takes effect."""
        super().train(mode)
        if self.config.freeze_backbone != self.backbone_is_frozen:  # only then: some parts may be frozen by themselves
            self.backbone.requires_grad_(not self.config.freeze_backbone)
            self._freeze_unused()
        if self.config.freeze_backbone:
            self.backbone.eval()
        return self

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
        """A vector (B, D) of every text, as `pooler_output`, and states (B, L, D) of every token.

        Where tokens are weighed the vector is a weighted sum over them, and the states carry their weights, times the
        number of tokens of the text, so that the mean weight is 1.

        Args:
            input_ids: (B, L); or `inputs_embeds` (B, L, E).
            attention_mask: (B, L), 1 at real tokens, 0 at pads on either side; all real when absent.
            token_type_ids: (B, L), where the backbone has segments.
            position_ids: (B, L); real tokens are counted when absent.
            **kwargs: `output_attentions`, `output_hidden_states` and others of the backbone. With `output_attentions`
                there are `feature_attention` (B, D) and `token_attention` (B, L), where there are such.

        Raises:
            ValueError: a text has more tokens than `tam_max_length`.
        """
        self.resolve_output_flags(kwargs)
        given = check_inputs(input_ids, inputs_embeds, attention_mask)
        mask = None if attention_mask is None else ensure_nonempty_mask(attention_mask != 0)
        if self.config.max_tokens is not None:
            check_length(given.shape[1], mask, self.config.max_tokens)
        outputs = self.forward_backbone(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs
        )
        states = outputs.last_hidden_state
        mask = None if mask is None else mask.to(states.device)
        if self.bilstm is not None:
            states = self.bilstm(states, mask)
        features = tokens = None
        if self.pooling_attention is not None:
            pooled, states, tokens = self.pooling_attention(states, mask)
        else:
            if self.sequential_attention is not None:
                # Of the configuration, as people change it there to compare.
                states, features, tokens = self.sequential_attention(states, mask, self.config.fam_threshold)
            pooled = masked_mean(states, mask) if tokens is None else states.sum(1)
        if self.weighs_tokens:
            states = states * sequence_lengths(states, mask)
        wants_attentions = kwargs["output_attentions"]
        return LocalModelOutput(
            last_hidden_state=states,
            pooler_output=pooled,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=() if wants_attentions else None,
            feature_attention=features if wants_attentions else None,
            token_attention=tokens if wants_attentions else None,
        )

    @property
    def weighs_tokens(self) -> bool:
        """True if token states are pre-multiplied by attention weights."""
        return self.pooling_attention is not None or self.config.has_tam


def sequence_lengths(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor | int:
    """Return the number of real tokens of each row of states (B, L, D), in a shape that multiplies them."""
    return states.shape[1] if mask is None else mask.sum(-1)[:, None, None].to(states.dtype)


class SamRobertaForQuestionAnswering(SamRobertaPreTrainedModel, QuestionAnsweringHead):
    """SAM with start and end logits of an answer span on top."""

    base_model_class = SamRobertaModel


class SamRobertaForSequenceClassification(SamRobertaPreTrainedModel, SequenceClassificationHead):
    """SAM with a classifier or regressor of whole texts or pairs on top (section 3.4)."""

    base_model_class = SamRobertaModel

    def new_classifier(self) -> nn.Module:
        return self.classification_head(self.config.num_labels)


class SamRobertaForTokenClassification(SamRobertaPreTrainedModel, TokenClassificationHead):
    """SAM with a classifier of every token on top."""

    base_model_class = SamRobertaModel


class SamRobertaForMultipleChoice(SamRobertaPreTrainedModel, MultipleChoiceHead):
    """SAM with a score of every choice on top."""

    base_model_class = SamRobertaModel

    def new_classifier(self) -> nn.Module:
        return self.classification_head(1)


register_auto_classes(
    SamRobertaConfig,
    AutoModel=SamRobertaModel,
    AutoModelForQuestionAnswering=SamRobertaForQuestionAnswering,
    AutoModelForSequenceClassification=SamRobertaForSequenceClassification,
    AutoModelForTokenClassification=SamRobertaForTokenClassification,
    AutoModelForMultipleChoice=SamRobertaForMultipleChoice,
)
