"""Possible answer spans, from the start and end logits of a window.

Shapes: L tokens of a window, P pairs.
"""

from __future__ import annotations

import torch


def possible_spans(
    starts: torch.Tensor, ends: torch.Tensor, inside: torch.Tensor, max_tokens: int, most: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first and the last tokens (P,) of the spans inside a passage that are not too long.

    Args:
        starts: (L,), logits of the first token.
        ends: (L,), logits of the last token.
        inside: (L,), true at the tokens of the passage.
        max_tokens: tokens of the longest span.
        most: number of best first and of best last tokens that are combined; all if None.
    """
    tokens = inside.nonzero().flatten()
    first = tokens[starts[tokens].argsort(descending=True, stable=True)[:most]]
    last = tokens[ends[tokens].argsort(descending=True, stable=True)[:most]]
    length = last[None, :] - first[:, None] + 1
    row, column = ((length >= 1) & (length <= max_tokens)).nonzero(as_tuple=True)
    return first[row], last[column]


def span_probabilities(
    starts: torch.Tensor, ends: torch.Tensor, inside: torch.Tensor, no_answer: int | None
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return the probabilities (L,) of first and of last tokens, and the probability of "no answer".

    Args:
        starts: (L,), logits of the first token.
        ends: (L,), logits of the last token.
        inside: (L,), true at the tokens of the passage.
        no_answer: position of the token that stands for "no answer". The softmax includes this token.
    """
    competing = inside.clone()
    if no_answer is not None:
        competing[no_answer] = True
    first, last = (logits.double().masked_fill(~competing, -torch.inf).softmax(-1) for logits in (starts, ends))
    return first, last, 0.0 if no_answer is None else float(first[no_answer] * last[no_answer])
