"""Encoding of sentences with marked cues, and logits of their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .cue_markers import CUE_MARKER, mark_cues

NO_WORD = -1
"""Word index of tokens that belong to no word of the sentence: special tokens and cue markers."""


def encode_marked(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    cues: Sequence[Sequence[int]],
    cue_types: Sequence[str | None],
    **kwargs: Any,
) -> tuple[BatchEncoding, list[list[int]]]:
    """Tokenize sentences with a marker before each word of their cues.

    Args:
        tokenizer: A fast tokenizer with cue markers.
        sentences: Words of each sentence.
        cues: For each sentence a list with 1 for each word of the cue and 0 for other words. A list of zeros asks for
            the cues of the sentence.
        cue_types: Type of each sentence's cue, which only tokenizers with typed markers use; None if unknown.
        **kwargs: Arguments of the tokenizer.

    Returns:
        The encoding, and for each sentence the index of each token's word, counted without markers, or `NO_WORD`.
    """
    has_types = hasattr(tokenizer, "cue_marker")
    marked = [
        mark_cues(words, cue, cue_type if has_types and any(cue) else None)
        for words, cue, cue_type in zip(sentences, cues, cue_types, strict=True)
    ]
    encoded = tokenizer(marked, is_split_into_words=True, **kwargs)
    word_numbers = []
    for row, cue in enumerate(cues):
        numbers = [number for word, is_cue in enumerate(cue) for number in ([NO_WORD, word] if is_cue else [word])]
        word_numbers.append([NO_WORD if place is None else numbers[place] for place in encoded.word_ids(row)])
    return encoded, word_numbers


def word_logits(logits: torch.Tensor, word_numbers: Sequence[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean of the logits over each word's tokens.

    Args:
        logits: (>= tokens, labels); rows after the last token are ignored.
        word_numbers: Word index of each token, or `NO_WORD`.
        length: Number of words of the sentence.

    Returns:
        Logits (words, labels), 0 for words without a token; and a boolean mask (words,) of the words with a token.
    """
    numbers = torch.as_tensor(word_numbers, dtype=torch.long)
    tokens = (numbers != NO_WORD).nonzero()[:, 0]
    words = numbers[tokens]
    sums = torch.zeros(length, logits.shape[-1], dtype=torch.float64).index_add_(0, words, logits[tokens].double())
    counts = torch.bincount(words, minlength=length)
    return sums / counts.clamp(min=1)[:, None], counts > 0


def knows_cues(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if a tokenizer has a cue marker."""
    return CUE_MARKER in tokenizer.get_added_vocab()
