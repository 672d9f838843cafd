"""Model inputs for extractive question answering; long passages are split into overlapping windows.

The functions for `datasets.map(batched=True)` are module-level functions with keyword arguments, so that they can
be cached, and pickled for several processes. Features are not padded: `QuestionAnsweringCollator` pads a batch, and
shifts the answer positions if the tokenizer pads on the left.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from hf_localattn.models.pipeline_question_answering import (
    MIN_NEW_TOKENS,
    Offsets,
    cut_question,
    encode_windows,
    no_answer_position,
)

BOOKKEEPING = ("example_id", "offset_mapping", "cls_position")


def check_window_settings(tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int) -> int:
    """Validate window settings, and return the maximum number of question tokens; longer questions are cut.

    Args:
        tokenizer: a fast tokenizer.
        max_length: number of tokens of a window: question, passage and special tokens.
        doc_stride: number of tokens by which neighboring windows overlap.

    Raises:
        ValueError: the tokenizer is slow, or the overlap leaves no room in the window.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, and windows need character offsets: load it with"
            " AutoTokenizer, or choose a model that has a tokenizer.json."
        )
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    if doc_stride < 0:
        raise ValueError(f"doc_stride must not be negative; got {doc_stride}.")
    if room - doc_stride < 2:
        raise ValueError(
            f"doc_stride {doc_stride} is too large: a window of {max_length} tokens has room for {max(room, 0)} tokens"
            f" of question and passage. Choose a doc_stride of at most {max(room - 2, 0)} (usually a third of the"
            " window), or a larger max_seq_length."
        )
    return room - doc_stride - min(MIN_NEW_TOKENS, (room - doc_stride) // 2)


def train_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> BatchEncoding:
    """Tokenize a batch of SQuAD rows into windows with `start_positions` and `end_positions`.

    The positions are the first and last token of the row's first answer. If there is no answer, or the window does not
    contain all of it, both are the position of the classification token.
    """
    encoded, example_of, offsets = _windows(examples, tokenizer, max_length, doc_stride)
    starts, ends = [], []
    for window, example in enumerate(example_of):
        answers = examples["answers"][example]
        span = None
        if answers["text"]:
            text, first = answers["text"][0], answers["answer_start"][0]
            begin = first + len(text) - len(text.lstrip())
            span = token_span(offsets[window], begin, first + len(text.rstrip()))
        cls = _cls_position(encoded, window, tokenizer)
        starts.append(cls if span is None else span[0])
        ends.append(cls if span is None else span[1])
    encoded["start_positions"] = starts
    encoded["end_positions"] = ends
    return encoded


def evaluation_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> BatchEncoding:
    """Tokenize a batch of SQuAD rows into windows whose tokens can be mapped back to the passage.

    Additional columns are `example_id`, `offset_mapping` (the characters [start, end) of each token in the passage,
    None outside of it) and `cls_position`. Rows need `id`, `question` and `context`.
    """
    encoded, example_of, offsets = _windows(examples, tokenizer, max_length, doc_stride)
    encoded["example_id"] = [examples["id"][example] for example in example_of]
    encoded["offset_mapping"] = offsets
    encoded["cls_position"] = [_cls_position(encoded, window, tokenizer) for window in range(len(example_of))]
    return encoded


def token_span(offsets: list[tuple[int, int] | None], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last token that cover the characters [start, end); None if a character is not covered.

    Args:
        offsets: characters [start, end) of each token in the passage, None outside of it.
        start: start offset.
        end: end offset (exclusive).
    """
    inside = [(position, *offset) for position, offset in enumerate(offsets) if offset is not None]
    if not inside:
        return None
    context, begins, finishes = np.array(inside).T
    if start < begins[0] or end > finishes[-1]:
        return None
    first = np.searchsorted(begins, start, side="right") - 1
    last = np.searchsorted(finishes, end, side="left")
    # Byte-level tokenizers may split a character into tokens with equal offsets. All of these belong to the answer.
    first = np.searchsorted(begins, begins[first], side="left")
    last = np.searchsorted(finishes, finishes[last], side="right") - 1
    return (int(context[first]), int(context[last])) if first <= last else None


@dataclass
class QuestionAnsweringCollator:
    """Pad features to tensors of shape (batch, length), and drop the bookkeeping columns.

    Args:
        tokenizer: tokenizer that pads.
        max_length: length of all batches, *optional*, defaults to the longest feature of each batch.
        pad_to_multiple_of: pad the length to a multiple of this number, *optional*.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int | None = None
    pad_to_multiple_of: int | None = None

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        positions = ("start_positions", "end_positions")
        inputs = [{k: v for k, v in f.items() if k not in BOOKKEEPING and k not in positions} for f in features]
        batch = self.tokenizer.pad(
            inputs,
            padding=True if self.max_length is None else "max_length",
            max_length=self.max_length,
            pad_to_multiple_of=self.pad_to_multiple_of,
            return_tensors="pt",
        )
        length = batch["input_ids"].shape[1]
        for name in positions:
            if name in features[0]:
                batch[name] = torch.tensor([f[name] + self._left_pads(f, length) for f in features])
        return dict(batch)

    def _left_pads(self, feature: dict[str, Any], length: int) -> int:
        return length - len(feature["input_ids"]) if self.tokenizer.padding_side == "left" else 0


def unpad_left(logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Move the left padding of each row of logits (batch, length, ...) to its right end.

    Position i of a row is then token i of its unpadded feature, whatever the padding side.
    """
    pads = attention_mask.to(torch.int64).argmax(dim=1, keepdim=True)
    positions = torch.arange(logits.shape[1], device=logits.device).unsqueeze(0) + pads
    rows = torch.arange(len(logits), device=logits.device).unsqueeze(1)
    return logits[rows, positions % logits.shape[1]]


def _windows(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int
) -> tuple[BatchEncoding, list[int], list[list[Offsets]]]:
    """Return the model inputs of all windows, the row index of each, and the offsets of its tokens in the passage."""
    question_length = check_window_settings(tokenizer, max_length, doc_stride)
    questions = [cut_question(question.strip(), tokenizer, question_length) for question in examples["question"]]
    return encode_windows(questions, examples["context"], tokenizer, max_length, doc_stride)


def _cls_position(encoded: BatchEncoding, window: int, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the position of the classification token; it stands for "no answer in this window"."""
    return no_answer_position(encoded, window, tokenizer) or 0
