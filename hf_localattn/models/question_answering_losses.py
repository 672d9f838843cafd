"""Losses of question answering in COOL's paper, until COOL has them in its own file."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from transformers.loss.loss_utils import ForQuestionAnsweringLoss


def sum_question_answering_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    **kwargs: Any,
) -> torch.Tensor:
    """Return the sum of the start and end cross-entropy, not their mean.

    Source: COOL, section 3.4, "the sum of the negative log probabilities".
    """
    return 2 * ForQuestionAnsweringLoss(start_logits, end_logits, start_positions, end_positions, **kwargs)


def printed_question_answering_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """Return -log(p(start) + p(end)), averaged over the examples whose answer is in range.

    Source: COOL, equation 16 as printed.
    """
    length = start_logits.shape[1]
    device = start_logits.device
    starts, ends = (given.view(-1).to(device).clamp(0, length) for given in (start_positions, end_positions))
    inside = (starts < length) & (ends < length)
    dtype = torch.promote_types(start_logits.dtype, torch.float32)
    logs = [
        functional.log_softmax(logits, dim=-1, dtype=dtype).gather(1, positions.clamp(max=length - 1)[:, None])
        for logits, positions in ((start_logits, starts), (end_logits, ends))
    ]
    losses = -torch.logaddexp(*logs).squeeze(1)
    count = inside.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
    return losses.masked_fill(~inside, 0.0).sum() / count


QUESTION_ANSWERING_LOSSES = {"sum": sum_question_answering_loss, "joint": printed_question_answering_loss}
