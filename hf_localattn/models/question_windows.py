"""Overlapping windows of a long passage, each encoded with the question."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from transformers import BatchEncoding, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

MIN_NEW_TOKENS = 16
"""Fewest new tokens of a window: a very long question would split a passage into hundreds of windows."""

Offsets = tuple[int, int] | None
"""Characters [start, end) of a token in the passage, None outside of it."""


def encode_windows(
    questions: Sequence[str],
    contexts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    doc_stride: int,
    padding: bool | str = False,
) -> tuple[BatchEncoding, list[int], list[list[Offsets]]]:
    """Return the model inputs of all windows, their row indices, and the offsets of their tokens in the passage.

    Args:
        questions: one question for each row.
        contexts: one passage for each row.
        tokenizer: a fast tokenizer.
        max_length: length of a window with question, passage and special tokens.
        doc_stride: tokens by which neighboring windows overlap.
        padding: as in calls of the tokenizer.
    """
    is_first = question_is_first(tokenizer)
    encoded = tokenizer(
        *map(list, (questions, contexts) if is_first else (contexts, questions)),
        truncation="only_second" if is_first else "only_first",
        max_length=max_length,
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=padding,
    )
    row_of = encoded.pop("overflow_to_sample_mapping")
    all_offsets = encoded.pop("offset_mapping")
    context_id = 1 if is_first else 0
    offsets = [
        [
            tuple(offset) if sequence == context_id else None
            for offset, sequence in zip(window_offsets, encoded.sequence_ids(window), strict=True)
        ]
        for window, window_offsets in enumerate(all_offsets)
    ]
    return encoded, row_of, offsets


def question_is_first(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if the question comes before the passage.

    Tokenizers that pad on the left (XLNet) put the classification token last and the passage first.
    """
    return tokenizer.padding_side == "right"


def cut_question(question: str, tokenizer: PreTrainedTokenizerBase, length: int) -> str:
    """Return a question, cut to `length` tokens with a warning."""
    if len(question.encode()) <= length:  # no tokenizer makes more tokens than bytes
        return question
    offsets = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False).offset_mapping
    if len(offsets) <= length:
        return question
    logger.warning(
        "A question of %d tokens is cut to %d, the room that the settings leave: %.60s...",
        len(offsets),
        length,
        question,
    )
    return question[: offsets[length - 1][1]]


def no_answer_position(encoded: BatchEncoding, window: int, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the position of the classification token, which stands for "no answer here", or None if missing.

    The beginning-of-text token is used if the tokenizer has no classification token.
    """
    special = [i for i, sequence in enumerate(encoded.sequence_ids(window)) if sequence is None]
    ids = encoded["input_ids"][window]
    for token in (tokenizer.cls_token_id, tokenizer.bos_token_id):
        for position in special:
            if token is not None and ids[position] == token:
                return position
    return None
