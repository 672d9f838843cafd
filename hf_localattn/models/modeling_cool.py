"""COOL: a pretrained encoder with a context outlooker on top of, below or parallel to it.

Source: COOL, a Context Outlooker, and its Application to Question Answering (Zhu, Ng and Bressan), section 3.

Shapes: B batch, L tokens, H width of the encoder, F width of the local layers.
"""

from typing import Any

import torch
from torch.nn import functional
from transformers.loss.loss_utils import ForQuestionAnsweringLoss
from transformers.utils import can_return_tuple

from .configuration_cool import CoolConfig
from .cool_local_encoder import CoolPreTrainedModel, Fusion, LocalEncoder
from .modeling_local_attention import LocalModelOutput, check_inputs
from .task_heads import (
    MaskedLMHead,
    MultipleChoiceHead,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)


class CoolModel(CoolPreTrainedModel):
    """The encoder with the context outlooker, without a task head."""

    def __init__(self, config: CoolConfig):
        super().__init__(config)
        self.add_backbone()
        self.local_encoder = LocalEncoder(config)
        width = getattr(self.get_input_embeddings(), "embedding_dim", None)
        if config.mode != "g2l" and width != config.local_input_size:
            raise ValueError(
                f"`mode` is {config.mode!r}, but {config.backbone_config.model_type!r} has no word embeddings of "
                f"width {config.local_input_size} (found {width}): set `mode` to 'g2l'."
            )
        if config.mode == "g&l":
            self.fusion = Fusion(config)
        self.post_init()

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
        """Compute the hidden states of all tokens, of width F in mode "g2l" and H in other modes.

        The inputs are those of the heads, each (B, L); either `input_ids` or `inputs_embeds` (B, L, E) is required.
        """
        self.resolve_output_flags(kwargs)
        states = check_inputs(input_ids, inputs_embeds, attention_mask)
        mask = None if attention_mask is None else attention_mask != 0
        local = weights = None
        if self.config.mode != "g2l":
            words = states if input_ids is None else self.get_input_embeddings()(input_ids)
            local, weights = self.local_encoder(words, mask, kwargs["output_attentions"])
            if self.config.mode == "l2g":
                input_ids = None
                inputs_embeds = local
        outputs = self.forward_backbone(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs
        )
        states = outputs.last_hidden_state
        if self.config.mode == "g2l":
            states, weights = self.local_encoder(states, mask, kwargs["output_attentions"])
        elif self.config.mode == "g&l":
            states = self.fusion(states, local)
        return LocalModelOutput(
            last_hidden_state=states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=weights,
        )


CoolPreTrainedModel.base_model_class = CoolModel


class CoolForQuestionAnswering(CoolPreTrainedModel, QuestionAnsweringHead):
    """COOL with a span prediction head for extractive question answering (section 3.4)."""

    def loss_function(
        self,
        start_logits: torch.Tensor,
        end_logits: torch.Tensor,
        start_positions: torch.Tensor,
        end_positions: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Compute the loss that `qa_loss` names, over the examples whose answer is in range."""
        logits = start_logits, end_logits
        positions = start_positions, end_positions
        if self.config.qa_loss != "joint":
            mean = ForQuestionAnsweringLoss(*logits, *positions, num_items_in_batch=num_items_in_batch)
            return 2 * mean if self.config.qa_loss == "sum" else mean
        dtype = torch.promote_types(start_logits.dtype, torch.float32)
        last = start_logits.shape[1] - 1
        starts, ends = (position.view(-1).to(start_logits.device).clamp(min=0) for position in positions)
        inside = (starts <= last) & (ends <= last)
        logs = [
            functional.log_softmax(scores, dim=-1, dtype=dtype).gather(1, position.clamp(max=last)[:, None])
            for scores, position in zip(logits, (starts, ends), strict=True)
        ]
        losses = -torch.logaddexp(*logs).squeeze(1)
        count = inside.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        return losses.masked_fill(~inside, 0.0).sum() / count


class CoolForSequenceClassification(CoolPreTrainedModel, SequenceClassificationHead):
    """COOL with a classification or regression head for texts and pairs of texts."""


class CoolForTokenClassification(CoolPreTrainedModel, TokenClassificationHead):
    """COOL with a token classification head."""


class CoolForMultipleChoice(CoolPreTrainedModel, MultipleChoiceHead):
    """COOL with a multiple choice head."""


class CoolForMaskedLM(CoolPreTrainedModel, MaskedLMHead):
    """COOL with the masked-language-model head of the backbone."""
