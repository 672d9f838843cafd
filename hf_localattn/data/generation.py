"""Model inputs for question generation: answer and passage as the source, the question as the target."""

import logging
import re
from bisect import bisect_left, bisect_right
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

REFERENCE = "reference"
"""Column of features with the question as text; not a model input."""


def generation_features(
    examples: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    max_source_length: int,
    max_target_length: int,
    pad_to_max_length: bool = False,
    label_pad_token_id: int = -100,
) -> BatchEncoding:
    """Tokenize a batch of answered SQuAD rows: the first answer and the passage, with the question as `labels`.

    A passage that is too long is cut to the part around the answer (see `source_ids`), a question at the end. The
    lengths include special tokens. Without questions there are no `labels` and no `REFERENCE`.
    """
    input_ids = []
    for context, answers in zip(examples["context"], examples["answers"], strict=True):
        answer = answers["text"][0]
        start = answers["answer_start"][0]
        input_ids.append(source_ids(context, answer, start, tokenizer, max_source_length))
    masks = [[1] * len(ids) for ids in input_ids]
    features = BatchEncoding({"input_ids": input_ids, "attention_mask": masks})
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


def source_ids(
    context: str, answer: str, answer_start: int, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> list[int]:
    """Return the token ids of an answer and its passage; a long passage is cut, with the answer in the middle.

    The passage is cut between words, or within a word that is too long, such as a sentence without spaces. The cut
    is found by tokenizing candidates, because the tokenizer of ProphetNet has no character offsets.
    """

    def encode(start: int, end: int, **options: Any) -> list[int]:
        # Encoder-decoders take no token types. No warning about the length: the passage is cut below.
        options |= {"return_token_type_ids": False, "verbose": False}
        return tokenizer(answer.strip(), context[start:end], **options)["input_ids"]

    whole = encode(0, len(context))
    if len(whole) <= max_length:
        return whole
    for unit in (r"\S+", r"\S"):
        spans = _growing_spans(context, answer_start, answer_start + len(answer), unit)
        first_too_long = bisect_left(spans, True, key=lambda span: len(encode(*span)) > max_length)
        if first_too_long > 0:
            return encode(*spans[first_too_long - 1])
    logger.warning("An answer does not fit into %d tokens with its passage; it is cut: %.60s...", max_length, answer)
    return encode(answer_start, len(context), truncation="longest_first", max_length=max_length)


def _growing_spans(context: str, start: int, end: int, unit: str) -> list[tuple[int, int]]:
    """Return the spans [start, end) of an answer with 0, 1, 2, ... units on each side, up to the whole passage."""
    units = [match.span() for match in re.finditer(unit, context)]
    first = max(bisect_right(units, start, key=lambda span: span[0]) - 1, 0)
    last = bisect_left(units, end, key=lambda span: span[1])
    spans = []
    for count in range(len(units)):
        first_start, _ = units[max(first - count, 0)]
        _, last_end = units[min(last + count, len(units) - 1)]
        spans.append((first_start, last_end))
    return spans
