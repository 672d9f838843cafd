"""Running a model on texts, with outputs aligned to printable tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import decoders, pre_tokenizers
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import EncodingFast

from hf_localattn.models.forward_inputs import accepted_inputs, longest_input
from hf_localattn.models.pipeline_question_answering import question_is_first

logger = logging.getLogger(__name__)

MOST_TOKENS = 1_000_000
"""Length limit for models that define none."""

Text = str | tuple[str, str] | list[str]
"""A text, a pair of texts, or the words of a text."""

WORD_START = "\u2581"
"""Prefix of tokens at the beginning of a word, as in SentencePiece."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A batch of B texts with L tokens, including padding.

    Attributes:
        tokens: The L printable tokens of each text.
        is_real: (B, L), True at tokens, False at padding.
        is_text: (B, L), True at tokens of the texts, False at padding and at added special tokens.
        inputs: Outputs of the tokenizer by name, each (B, L).
    """

    tokens: list[list[str]]
    is_real: np.ndarray
    is_text: np.ndarray
    inputs: Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Reading(Encoded):
    """A batch of texts, and what a model says of it.

    Attributes:
        output: Output of the headless model, or of an encoder-decoder's encoder, with attention weights.
    """

    output: Mapping[str, Any]


def encode(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], *, cut: bool) -> Encoded:
    """Tokenize a batch of texts as in training.

    Args:
        model: Model that takes the texts.
        tokenizer: Fast tokenizer of the model.
        texts: Single texts, pairs of texts, or lists of words.
        cut: If True, truncate texts that are too long, without a warning.

    Raises:
        ValueError: There are no texts, a text is empty, or a text is too long and `cut` is False.
    """
    sides, is_split = _columns(texts)
    strategy = "longest_first"
    # As in training: the passage may come first, and only the passage is truncated.
    if len(sides) == 2 and not question_is_first(tokenizer) and "QuestionAnswering" in type(model).__name__:
        sides = sides[::-1]
        strategy = "only_first"
    limit = longest_input(model, tokenizer) or MOST_TOKENS
    encoded = tokenizer(
        *sides,
        is_split_into_words=is_split,
        truncation=strategy,
        max_length=limit if cut else MOST_TOKENS,
        padding=len(texts) > 1,
        return_attention_mask=True,
        return_tensors="pt",
        verbose=False,
    )
    length = encoded["input_ids"].shape[1]
    if length > limit:
        raise ValueError(f"a text has {length} tokens, but the model takes at most {limit}: give a shorter one.")
    if encoded.encodings is None:
        raise ValueError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, which is needed to align tokens with texts: load it"
            " with AutoTokenizer, or choose a model with a tokenizer.json."
        )
    of_bytes = _stands_for_bytes(tokenizer)
    tokens = []
    is_text = []
    for encoding, of_row in zip(encoded.encodings, zip(*sides, strict=True), strict=True):
        tokens.append(printable_tokens(encoding, of_row, of_bytes=of_bytes))
        is_text.append([sequence is not None for sequence in encoding.sequence_ids])
    is_real = encoded["attention_mask"].numpy() != 0
    return Encoded(tokens, is_real, np.array(is_text), dict(encoded))


def read(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], *, cut: bool) -> Reading:
    """Run a model on a batch of texts, on the device of the model. The model is not changed.

    The arguments and errors are those of `encode`.
    """
    encoded = encode(model, tokenizer, texts, cut=cut)
    body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    with evaluating(model), torch.inference_mode():
        inputs = {name: tensor.to(model.device) for name, tensor in encoded.inputs.items()}
        output = body(**accepted_inputs(body, inputs), output_attentions=True, return_dict=True)
    return Reading(**vars(encoded), output=output)


def read_all(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int
) -> Iterator[Reading]:
    """Run a model on any number of texts in batches. Truncate texts that are too long, with a warning."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1; got {batch_size}.")
    _columns(texts)
    limit = longest_input(model, tokenizer)
    full = 0
    for at in range(0, len(texts), batch_size):
        reading = read(model, tokenizer, texts[at : at + batch_size], cut=True)
        full += int((reading.is_real.sum(-1) == limit).sum())
        yield reading
    if full:
        logger.warning(
            "%d of %d texts have at least the %d tokens that the model takes: longer texts are truncated.",
            full,
            len(texts),
            limit,
        )


def weights_of(output: Mapping[str, Any], name: str) -> np.ndarray | None:
    """Return an output of the model as a float64 array; None if the model has none."""
    value = output.get(name)
    return None if value is None else value.double().cpu().numpy()


def _columns(texts: Sequence[Text]) -> tuple[list[list[Any]], bool]:
    """Return the texts, or the first and the second texts of pairs, as lists; and if they are lists of words."""
    if isinstance(texts, str) or not texts:
        raise ValueError(f"`texts` is {texts!r}; give a list of texts.")
    kinds = {type(text) for text in texts}
    if len(kinds) > 1:
        raise ValueError("`texts` must have only single texts, only pairs of two, or only lists of words.")
    is_split = kinds == {list}
    rows: list[Sequence[Any]] = [text if isinstance(text, tuple) else (text,) for text in texts]
    if any(len(row) > 2 for row in rows):
        raise ValueError("`texts` must have only single texts, only pairs of two, or only lists of words.")
    for index, row in enumerate(rows):
        for text in row:
            words = text if is_split else [text]
            if not all(isinstance(word, str) for word in words) or not "".join(words).strip():
                raise ValueError(f"text {index} is {text!r}; give a text that is not empty.")
    return [list(column) for column in zip(*rows, strict=True)], is_split


def _stands_for_bytes(tokenizer: PreTrainedTokenizerBase) -> bool:
    backend = tokenizer.backend_tokenizer
    return isinstance(backend.decoder, decoders.ByteLevel) or isinstance(
        backend.pre_tokenizer, pre_tokenizers.ByteLevel
    )


def printable_tokens(encoding: EncodingFast, texts: Sequence[str | list[str]], *, of_bytes: bool = False) -> list[str]:
    """Return the tokens of an encoded text in printable form.

    Tokens keep their word markers, "##" (WordPiece) or "▁" (SentencePiece). Byte-level tokens are decoded, with "▁"
    for a leading space; tokens that are parts of a character show the whole character. White space and control
    characters are escaped.

    Args:
        encoding: Encoding of one text or one pair.
        texts: The one or two texts of the encoding, or the words of one. Its offsets refer to these texts or words.
        of_bytes (*optional*, defaults to False): True for a byte-level tokenizer (RoBERTa).
    """
    tokens = []
    for position, token in enumerate(encoding.tokens):
        sequence = encoding.sequence_ids[position]
        if of_bytes and sequence is not None:
            decoded = decoders.ByteLevel().decode([token])
            if "\ufffd" in decoded:  # a part of a character
                text = texts[sequence]
                if isinstance(text, list):
                    text = text[encoding.word_ids[position]]
                start, end = encoding.offsets[position]
                decoded = text[start:end] or decoded
            token = WORD_START + decoded[1:] if decoded.startswith(" ") else decoded
        tokens.append("".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in token))
    return tokens


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run the block with a model in evaluation mode, then restore the mode of each module."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
