"""The task heads, written once for all families that sit on top of a backbone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers.loss.loss_utils import ForQuestionAnsweringLoss
from transformers.modeling_outputs import QuestionAnsweringModelOutput
from transformers.utils import can_return_tuple

from .modeling_local_attention import LocalAttentionPreTrainedModel


@dataclass
class LocalQuestionAnsweringOutput(QuestionAnsweringModelOutput):
    """Output of a question-answering head.

    Args:
        local_attentions: one tensor per local layer, with `output_attentions=True`.
    """

    local_attentions: tuple[torch.Tensor, ...] | None = None


class QuestionAnsweringHead(LocalAttentionPreTrainedModel):
    """Start and end logits of the answer span from every token's features: one linear layer (equations 14 and 15).

    A family's class inherits from this one and from the family's own base class, and names its `base_model_class`.
    """

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        self.qa_outputs = nn.Linear(self.base_model.output_size, 2)
        if config.qa_loss != "mean":
            self.loss_function = QUESTION_ANSWERING_LOSSES[config.qa_loss]
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Any,
    ) -> LocalQuestionAnsweringOutput:
        """Logits (B, L) of every token being the answer's first and last one.

        Args:
            input_ids: (B, L); or `inputs_embeds` (B, L, E).
            attention_mask: (B, L), 1 at real tokens, 0 at pads on either side; all real when absent.
            start_positions, end_positions: (B,), token positions of the answer; positions past the end are ignored in
                the loss.
        """
        outputs = self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        start_logits, end_logits = self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss_kwargs = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(start_logits, end_logits, start_positions, end_positions, **loss_kwargs)
        return LocalQuestionAnsweringOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=outputs.local_attentions,
        )


def sum_question_answering_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    **kwargs: Any,
) -> torch.Tensor:
    """Sum, not mean, of the start and end cross-entropy ("the sum of the negative log probabilities", section 3.4)."""
    return 2 * ForQuestionAnsweringLoss(start_logits, end_logits, start_positions, end_positions, **kwargs)


def printed_question_answering_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """Equation 16 of COOL as printed: -log(p(start) + p(end)), a mean over the examples with an answer in range."""
    length = start_logits.shape[1]
    starts, ends = start_positions.view(-1), end_positions.view(-1)
    inside = (starts >= 0) & (starts < length) & (ends >= 0) & (ends < length)
    dtype = torch.promote_types(start_logits.dtype, torch.float32)
    logs = [
        functional.log_softmax(logits, dim=-1, dtype=dtype).gather(1, positions.clamp(0, length - 1)[:, None])
        for logits, positions in ((start_logits, starts), (end_logits, ends))
    ]
    losses = -torch.logaddexp(*logs).squeeze(1)
    count = inside.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
    return losses.masked_fill(~inside, 0.0).sum() / count


QUESTION_ANSWERING_LOSSES = {"sum": sum_question_answering_loss, "eq16": printed_question_answering_loss}
