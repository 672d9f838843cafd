"""Model inputs for question generation: answer and passage as the source, the question as the target.

The functions for `datasets.map(batched=True)` are plain module functions, as in `windows`.
"""

import logging
import re
from bisect import bisect_left, bisect_right
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


REFERENCE = "reference"
"""The column of features that holds the question as text; a model does not read it."""


def generation_features(
    examples: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    max_source_length: int,
    max_target_length: int,
    pad_to_max_length: bool = False,
    label_pad_token_id: int = -100,
) -> BatchEncoding:
    """Return a batch of answered SQuAD rows as model inputs: first answer, separator, passage; labels: the question.

    A passage that is too long is cut to the part around the answer (`source`). Rows that have questions get
    `labels`, and the text of the question as `reference`.

    Args:
        examples: columns context and answers, perhaps question.
        tokenizer: the model's, fast or not.
        max_source_length: tokens of the longest input, special tokens included.
        max_target_length: tokens of the longest question, special tokens included; longer ones are cut.
        pad_to_max_length: pad inputs and labels to these lengths.
        label_pad_token_id: stands in padded labels.
    """
    sources = [
        source(context, gold["text"][0], gold["answer_start"][0], tokenizer, max_source_length)
        for context, gold in zip(examples["context"], examples["answers"], strict=True)
    ]
    features = BatchEncoding({"input_ids": sources, "attention_mask": [[1] * len(ids) for ids in sources]})
    if pad_to_max_length:
        features = tokenizer.pad(features, padding="max_length", max_length=max_source_length)
    if "question" in examples:
        questions = [question.strip() for question in examples["question"]]
        labels = tokenizer(text_target=questions, max_length=max_target_length, truncation=True)["input_ids"]
        if pad_to_max_length:
            labels = [ids + [label_pad_token_id] * (max_target_length - len(ids)) for ids in labels]
        features["labels"] = labels
        features[REFERENCE] = questions
    return features


def source(
    context: str, answer: str, answer_start: int, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> list[int]:
    """Return the token ids of an answer and of as much of its passage as fits, with the answer in the middle.

    The passage is cut between words (within one if a word alone, such as a sentence without spaces, is too long).
    Only the length of tokenized text is asked for: ProphetNet's tokenizer has no character offsets.

    Args:
        context: the passage.
        answer: `context[answer_start : answer_start + len(answer)]`.
        answer_start: first character of the answer.
        tokenizer: puts its separator between a pair of texts.
        max_length: tokens, special tokens included.
    """

    def encode(start: int, end: int) -> list[int]:
        # Encoder-decoders know no token types, and of a length that will be cut there is nothing to warn.
        passage = context[start:end]
        return tokenizer(answer.strip(), passage, return_token_type_ids=False, verbose=False)["input_ids"]

    whole = encode(0, len(context))
    if len(whole) <= max_length:
        return whole
    for unit in (r"\S+", r"\S"):
        spans = _surroundings(context, answer_start, answer_start + len(answer), unit)
        too_many = bisect_left(spans, True, key=lambda span: len(encode(*span)) > max_length)
        if too_many > 0:
            return encode(*spans[too_many - 1])
    logger.warning("An answer is cut: it does not fit into %d tokens twice: %.60s...", max_length, answer)
    cut = {"truncation": "longest_first", "max_length": max_length}
    return tokenizer(answer.strip(), context[answer_start:], return_token_type_ids=False, **cut)["input_ids"]


def _surroundings(context: str, start: int, end: int, unit: str) -> list[tuple[int, int]]:
    """Characters [start, end) of an answer with 0, 1, 2, ... units on either side, up to the whole passage."""
    units = [match.span() for match in re.finditer(unit, context)]
    first = max(bisect_right(units, start, key=lambda span: span[0]) - 1, 0)
    last = min(bisect_left(units, end, key=lambda span: span[1]), len(units) - 1)
    return [(units[max(first - more, 0)][0], units[min(last + more, len(units) - 1)][1]) for more in range(len(units))]
