"""OA: a pretrained encoder with blocks of orthogonal attention to the query tokens.

Source: Orthogonal Attention: A Cloze-Style Approach to Negation Scope Resolution (Khandelwal and Attar), section 4.
"""

from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from transformers.utils import logging

from .configuration_oa_xlnet import OaXLNetConfig
from .modeling_local_attention import LocalAttentionPreTrainedModel, check_inputs
from .modeling_on_encoder import ModelOnEncoder
from .oa_attention import OrthogonalAttentionBlock, add_text, query_positions
from .oa_interaction import HeadwiseLinear, initialize
from .task_heads import (
    MaskedLMHead,
    MultipleChoiceHead,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)

logger = logging.get_logger(__name__)


class OaXLNetPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of OA's models: configuration, names and initialization."""

    config_class = OaXLNetConfig
    base_model_prefix = "oa"
    token_inputs = ("query_mask",)
    _no_split_modules = ["OrthogonalAttentionBlock"]  # noqa: RUF012 (transformers' own type)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, OrthogonalAttentionBlock):
            for layer in module.modules():
                if isinstance(layer, nn.Linear | HeadwiseLinear):
                    initialize(layer)


class OaXLNetModel(OaXLNetPreTrainedModel, ModelOnEncoder):
    """The encoder with blocks of orthogonal attention, without a task head."""

    def __init__(self, config: OaXLNetConfig):
        super().__init__(config)
        self.add_backbone()
        self.expects_queries = not config.finds_cues
        self.dropout = nn.Dropout(config.oa_dropout)
        self.blocks = nn.ModuleList(OrthogonalAttentionBlock(config) for _ in range(config.num_active_local_layers))
        self.post_init()

    def start_layers(
        self,
        inputs: dict[str, Any],
        mask: torch.Tensor | None,
        output_attentions: bool,
        query_mask: torch.Tensor | None = None,
        **further: Any,
    ) -> dict[str, Any]:
        """Check that `query_mask` (B, L) is 1 at the tokens of the query, such as a question or the cue of a negation.

        A row may have any number of them. `local_attention="none"` ignores it.
        """
        shape = check_inputs(inputs["input_ids"], inputs["inputs_embeds"]).shape[:2]
        if self.blocks and (query_mask is None or query_mask.shape != shape):
            problem = "missing" if query_mask is None else f"of shape {tuple(query_mask.shape)}"
            raise ValueError(
                f"`query_mask` is {problem}. Give a tensor {tuple(shape)} with 1 at the tokens of the query, or "
                "encode the texts with an OaXLNetTokenizer, which returns it."
            )
        return {"query_mask": query_mask}

    def forward_layers(
        self,
        states: torch.Tensor,
        mask: torch.Tensor | None,
        output_attentions: bool,
        query_mask: torch.Tensor | None = None,
        **started: Any,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the states (B, L, H) of all tokens, and the weights of each block as `local_attentions`."""
        weights = []
        if query_mask is not None and self.blocks:
            positions, real = query_positions((query_mask != 0) if mask is None else (query_mask != 0) & mask)
            self.warn_without_query(real)
            # `take_along_dim` would limit an exported graph to the sizes of its example.
            places = positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])
            local = self.dropout(states)
            for block in self.blocks:
                query = local.gather(1, places)
                is_query = real
                if self.config.text_in_query:
                    query, is_query = add_text(query, is_query, local, mask)
                local, attention = block(local, query, mask, is_query, output_attentions)
                weights.append(attention)
            states = self.dropout(local) + states
        return states, {"local_attentions": tuple(weights) if output_attentions else None}

    def warn_without_query(self, real: torch.Tensor) -> None:
        """Warn once per model of a batch without any query token, given the mask (B, N) of `query_positions`."""
        # With several columns there are query tokens: then the mask is not read.
        if not self.expects_queries or is_compiling() or real.shape[1] > 1 or real.any():
            return
        self.expects_queries = False
        logger.warning(
            "No row of this batch has a query token (`query_mask` is 0 everywhere), so OA's blocks have nothing to "
            "attend to. Mark the words of the query in the text with [CUE], as in `Mira is [CUE] not the baker.`, or "
            "give the query as one text of a pair. Further batches are not checked."
        )


OaXLNetPreTrainedModel.base_model_class = OaXLNetModel


class OaXLNetForQuestionAnswering(OaXLNetPreTrainedModel, QuestionAnsweringHead):
    """OA with a span prediction head for extractive question answering. The query is the question."""


class OaXLNetForSequenceClassification(OaXLNetPreTrainedModel, SequenceClassificationHead):
    """OA with a classification or regression head. In a pair of texts, one text is the query."""


class OaXLNetForTokenClassification(OaXLNetPreTrainedModel, TokenClassificationHead):
    """OA with a token classification head, such as for negation scope with the cue as the query (section 4)."""


class OaXLNetForMultipleChoice(OaXLNetPreTrainedModel, MultipleChoiceHead):
    """OA with a multiple choice head."""


class OaXLNetForMaskedLM(OaXLNetPreTrainedModel, MaskedLMHead):
    """OA with the masked-language-model head of the backbone, which XLNet does not have."""
