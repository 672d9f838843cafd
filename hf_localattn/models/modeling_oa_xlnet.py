"""OA: blocks of orthogonal attention on top of a pretrained encoder, for a text and a query of its own tokens.

Source: Orthogonal Attention: A Cloze-Style Approach to Negation Scope Resolution (Khandelwal and Attar), section 4.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers.utils import can_return_tuple

from .backbone_features import LocalModelOutput, check_inputs
from .configuration_oa_xlnet import OaXLNetConfig
from .input_checks import check_tensor
from .modeling_local_attention import LocalAttentionPreTrainedModel, register_auto_classes, with_extra_inputs
from .oa_attention import OrthogonalAttentionBlock, query_positions
from .task_heads import MultipleChoiceHead, QuestionAnsweringHead, SequenceClassificationHead, TokenClassificationHead

QUERY = ("query_mask",)


class OaXLNetPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of OA's models: configuration, names and initialization."""

    config_class = OaXLNetConfig
    base_model_prefix = "oa"
    token_inputs = QUERY
    _no_split_modules = ["OrthogonalAttentionBlock"]  # noqa: RUF012 (transformers' own type)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, OrthogonalAttentionBlock):
            module.initialize()


class OaXLNetModel(OaXLNetPreTrainedModel):
    """The encoder with blocks of orthogonal attention, without a head."""

    def __init__(self, config: OaXLNetConfig):
        super().__init__(config)
        self.add_backbone()
        self.output_size = config.hidden_size
        self.dropout = nn.Dropout(config.oa_dropout)
        self.blocks = nn.ModuleList(
            OrthogonalAttentionBlock(
                config.hidden_size,
                config.block_heads,
                config.oa_intermediate_size or config.hidden_size,
                interaction=config.local_attention,
                kv_sharing=config.kv_sharing,
                share_context_projection=config.share_context_projection,
                conv_num_filters=config.conv_num_filters,
                query_summary=config.query_summary,
                dropout=config.oa_dropout,
                chunk_size=config.oa_chunk_size,
            )
            for _ in range(config.num_active_local_layers)
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
        query_mask: torch.Tensor | None = None,
        **kwargs: torch.Tensor,
    ) -> LocalModelOutput:
        """States (B, L, H) of every token.

        Args:
            input_ids: (B, L); or `inputs_embeds` (B, L, E).
            attention_mask: (B, L), 1 at real tokens, 0 at pads on either side; all real when absent.
            token_type_ids: (B, L), where the backbone has segments.
            position_ids: (B, L); real tokens are counted when absent.
            query_mask: (B, L), 1 at the tokens of the query: a negation's cue, a question. Rows may have different
                numbers of them, or none. Not read with `local_attention="none"`.
            **kwargs: `output_attentions`, `output_hidden_states` and others of the backbone.

        Raises:
            ValueError: the query mask is missing, or of another shape.
        """
        self.resolve_output_flags(kwargs)
        shape = check_inputs(input_ids, inputs_embeds, attention_mask).shape[:2]
        query_tokens = checked_query_mask(query_mask, shape) if self.blocks else None
        outputs = self.forward_backbone(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs
        )
        states, weights = outputs.last_hidden_state, []
        if query_tokens is not None:
            mask = None if attention_mask is None else attention_mask != 0
            positions, real = query_positions(query_tokens if mask is None else query_tokens & mask)
            # Not `take_along_dim`, which export ties to the sizes of its example.
            places = positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])
            local = self.dropout(states)
            for block in self.blocks:
                query = local.gather(1, places)
                local, own = block(local, query, mask, real, kwargs["output_attentions"])
                weights.append(own)
            states = self.dropout(local) + states
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=tuple(weights) if kwargs["output_attentions"] else None,
        )


def checked_query_mask(query_mask: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
    """The mask (B, L) as booleans, or `ValueError` if it is missing or of another shape."""
    if query_mask is None:
        raise ValueError(
            "Orthogonal attention needs `query_mask` (batch, length), 1 at the tokens of the query: an "
            "OaXLNetTokenizer gives it."
        )
    check_tensor("query_mask", query_mask)
    if query_mask.shape != shape:
        raise ValueError(f"`query_mask` has shape {tuple(query_mask.shape)}; it must be {tuple(shape)}.")
    return query_mask != 0


class OaXLNetForQuestionAnswering(OaXLNetPreTrainedModel, QuestionAnsweringHead):
    """OA with start and end logits of an answer span on top; the query is the question."""

    base_model_class = OaXLNetModel
    forward = with_extra_inputs(QuestionAnsweringHead.forward, *QUERY)


class OaXLNetForSequenceClassification(OaXLNetPreTrainedModel, SequenceClassificationHead):
    """OA with a classifier or regressor of whole texts or pairs on top; of pairs the query is one text."""

    base_model_class = OaXLNetModel
    forward = with_extra_inputs(SequenceClassificationHead.forward, *QUERY)


class OaXLNetForTokenClassification(OaXLNetPreTrainedModel, TokenClassificationHead):
    """OA with a classifier of every token on top (section 4): the scope of a negation, whose cue is the query."""

    base_model_class = OaXLNetModel
    forward = with_extra_inputs(TokenClassificationHead.forward, *QUERY)


class OaXLNetForMultipleChoice(OaXLNetPreTrainedModel, MultipleChoiceHead):
    """OA with a score of every choice on top."""

    base_model_class = OaXLNetModel
    forward = with_extra_inputs(MultipleChoiceHead.forward, *QUERY)


register_auto_classes(
    OaXLNetConfig,
    AutoModel=OaXLNetModel,
    AutoModelForQuestionAnswering=OaXLNetForQuestionAnswering,
    AutoModelForSequenceClassification=OaXLNetForSequenceClassification,
    AutoModelForTokenClassification=OaXLNetForTokenClassification,
    AutoModelForMultipleChoice=OaXLNetForMultipleChoice,
)
