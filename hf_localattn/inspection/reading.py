"""Running a model on texts so that every number it leaves behind has the token that it is about."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import decoders, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import EncodingFast

from hf_localattn.model_utils import MOST_TOKENS, evaluating
from hf_localattn.models.forward_inputs import accepted_inputs, longest_input

logger = logging.getLogger(__name__)

Text = str | tuple[str, str]
"""A text, or a pair of texts."""

WORD_START = "\u2581"
"""Begins a token that begins a word, as SentencePiece writes it."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Outputs of a model for a batch of texts: B texts, L tokens with pads.

    Attributes:
        tokens: of each text its L tokens, fit to print.
        is_real: (B, L), true at all tokens but pads.
        is_text: (B, L), true at those of the texts themselves; special tokens that were put around them are not.
        inputs: (B, L) each, all that the tokenizer made, by name.
        output: of the headless model (of an encoder-decoder's encoder), with all its attentions.
    """

    tokens: list[list[str]]
    is_real: np.ndarray
    is_text: np.ndarray
    inputs: Mapping[str, np.ndarray]
    output: Mapping[str, Any]


def read(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], *, cut: bool) -> Reading:
    """Run a model, of which everything stays as it was, on a batch of texts.

    Args:
        model: with or without a head; used on its device.
        tokenizer: the model's, a fast one.
        texts: all single ones, or all pairs.
        cut: whether a text that is too long is cut, without a word, or an error.

    Raises:
        ValueError: no text, an empty one, or one that is too long.
    """
    sides, strategy = _columns(texts), "longest_first"
    # As in training: a tokenizer that pads on the left has the passage first, and the question is what is protected.
    if len(sides) == 2 and tokenizer.padding_side == "left" and "QuestionAnswering" in type(model).__name__:
        sides, strategy = sides[::-1], "only_first"
    limit = longest_input(model, tokenizer) or MOST_TOKENS
    encoded = tokenizer(
        *sides,
        truncation=strategy,
        max_length=limit if cut else MOST_TOKENS,
        padding=len(texts) > 1,
        return_attention_mask=True,
        return_tensors="pt",
        verbose=False,
    )
    length = encoded["input_ids"].shape[1]
    if length > limit:
        raise ValueError(f"a text has {length} tokens, but the model takes {limit}: give a shorter one.")
    if encoded.encodings is None:
        raise ValueError(
            f"{type(tokenizer).__name__} is not a fast tokenizer; only these know which part of a text a token is:"
            " load it with AutoTokenizer, or pick a model that has a tokenizer.json."
        )
    body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    with evaluating(model), torch.inference_mode():
        inputs = {name: tensor.to(model.device) for name, tensor in encoded.items()}
        output = body(**accepted_inputs(body, inputs), output_attentions=True, return_dict=True)
    of_bytes = _stands_for_bytes(tokenizer)
    of_text = [[number is not None for number in encoding.sequence_ids] for encoding in encoded.encodings]
    return Reading(
        tokens=[
            printable_tokens(encoding, own, of_bytes=of_bytes)
            for encoding, own in zip(encoded.encodings, zip(*sides, strict=True), strict=True)
        ],
        is_real=encoded["attention_mask"].numpy() != 0,
        is_text=np.array(of_text),
        inputs={name: tensor.numpy() for name, tensor in encoded.items()},
        output=output,
    )


def read_all(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int
) -> Iterator[Reading]:
    """Run a model on any number of texts, and warn of those that were cut because they are too long."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1; got {batch_size}.")
    _columns(texts)
    limit, full = longest_input(model, tokenizer), 0
    for at in range(0, len(texts), batch_size):
        reading = read(model, tokenizer, texts[at : at + batch_size], cut=True)
        full += int((reading.is_real.sum(-1) == limit).sum())
        yield reading
    if full:
        logger.warning(
            "%d of %d texts fill the %d tokens that the model takes: the rest is cut.", full, len(texts), limit
        )


def weights_of(output: Mapping[str, Any], name: str) -> np.ndarray | None:
    """An output of the model as an array, in double precision; none if there is none."""
    value = output.get(name)
    return None if value is None else value.double().cpu().numpy()


def _columns(texts: Sequence[Text]) -> list[list[str]]:
    """The texts, or the first ones and the second ones of pairs."""
    if isinstance(texts, str) or not texts:
        raise ValueError(f"`texts` is {texts!r}; give a list of texts.")
    rows = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    if len({len(row) for row in rows}) > 1 or len(rows[0]) > 2:
        raise ValueError("`texts` must be all single texts, or all pairs of two.")
    for number, row in enumerate(rows):
        for text in row:
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"text {number} is empty; expected a text, got {text!r}.")
    return [list(column) for column in zip(*rows, strict=True)]


def _stands_for_bytes(tokenizer: PreTrainedTokenizerBase) -> bool:
    backend = tokenizer.backend_tokenizer
    return isinstance(backend.decoder, decoders.ByteLevel) or isinstance(
        backend.pre_tokenizer, pre_tokenizers.ByteLevel
    )


def printable_tokens(encoding: EncodingFast, texts: Sequence[str], *, of_bytes: bool = False) -> list[str]:
    """The tokens of an encoded text as people read them.

    What marks the beginning or the continuation of a word stays: "##" of WordPiece and "▁" of SentencePiece, which
    stands for the blank of byte-level tokens too. These are decoded; of a character that several of them make up,
    each shows the whole. White space and control characters are written as escapes.

    Args:
        encoding: of one text or one pair.
        texts: the one or two texts, to which its offsets point.
        of_bytes: whether its tokens stand for bytes (RoBERTa).
    """
    tokens = []
    for token, of, (start, end) in zip(encoding.tokens, encoding.sequence_ids, encoding.offsets, strict=True):
        if of_bytes and of is not None:
            decoded = decoders.ByteLevel().decode([token])
            if "\ufffd" in decoded:  # bytes that are no character by themselves
                decoded = texts[of][start:end] or decoded
            token = WORD_START + decoded[1:] if decoded.startswith(" ") else decoded
        tokens.append("".join(one if one.isprintable() else repr(one)[1:-1] for one in token))
    return tokens
