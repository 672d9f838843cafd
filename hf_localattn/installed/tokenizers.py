"""Checks of the inputs of tokenizers, and building one from a backbone's tokenizer."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from typing import Any

from hf_localattn.models.tokenization_local_attention import is_batch

# Settings that describe where a tokenizer was loaded from, or the padding and truncation saved in its file. Calls
# choose padding and truncation themselves.
NOT_CARRIED_OVER = {
    "add_bos_token",
    "add_eos_token",
    "added_tokens_decoder",
    "auto_map",
    "is_local",
    "local_files_only",
    "max_length",
    "merges",
    "merges_file",
    "pad_to_multiple_of",
    "special_tokens_map_file",
    "stride",
    "tokenizer_file",
    "tokenizer_object",
    "truncation_strategy",
    "vocab",
    "vocab_file",
}

CARRIED_OVER = (
    "name_or_path",
    "model_max_length",
    "padding_side",
    "truncation_side",
    "model_input_names",
    "chat_template",
    "clean_up_tokenization_spaces",
    "split_special_tokens",
)


def build_tokenizer(tokenizer_class: Any, tokenizer: Any, **settings: Any) -> Any:
    """Build a tokenizer of a class, as `from_backbone` of the class documents."""
    for name in settings:
        if name not in tokenizer_class.SETTINGS:
            raise ValueError(
                f"{tokenizer_class.__name__} has no setting {name!r}; it has {', '.join(tokenizer_class.SETTINGS)}."
            )
    if isinstance(tokenizer, str | os.PathLike):
        raise ValueError(f"Give a tokenizer, not its name: AutoTokenizer.from_pretrained({str(tokenizer)!r}).")
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} is a slow tokenizer, which does not return the positions of tokens in the"
            " text. Load the backbone's fast tokenizer (AutoTokenizer does if there is a tokenizer.json)."
        )
    # Arguments of the constructor, then attributes that may have changed since.
    fields = {name: value for name, value in tokenizer.init_kwargs.items() if name not in NOT_CARRIED_OVER}
    fields |= {name: getattr(tokenizer, name) for name in CARRIED_OVER}
    fields["extra_special_tokens"] = tokenizer.extra_special_tokens
    added = {str(token): token for token in tokenizer.added_tokens_decoder.values()}  # with their flags
    model_specific = {}
    for name, token in tokenizer.special_tokens_map.items():
        if name in tokenizer_class.SPECIAL_TOKENS_ATTRIBUTES:
            fields[name] = added.get(token, token)
        else:
            model_specific[name] = added.get(token, token)
    fields["model_specific_special_tokens"] = model_specific
    fields = {name: value for name, value in fields.items() if value not in (None, [], {})}
    backend = deepcopy(tokenizer.backend_tokenizer)
    if hasattr(backend.pre_tokenizer, "add_prefix_space"):  # the backend decides, not the arguments
        fields["add_prefix_space"] = backend.pre_tokenizer.add_prefix_space
    backend.no_truncation()  # left by calls; both would become settings
    backend.no_padding()
    return tokenizer_class(tokenizer_object=backend, **(fields | settings))


def check_texts(text: Any, text_pair: Any, split: bool) -> None:
    """Raise `ValueError` if the arguments of a call are not texts, pairs or batches. The message names the row.

    With `split` texts are lists of words.
    """
    batched = is_batch(text, split)
    if batched and not text:
        raise ValueError("`text` is an empty batch: give at least one text.")
    if batched and text_pair is not None and (not is_batch(text_pair, split) or len(text_pair) != len(text)):
        raise ValueError(f"`text` is a batch of {len(text)}: `text_pair` must be a batch of the same size.")
    arguments = {"text": text}
    if text_pair is not None:
        arguments["text_pair"] = text_pair
    for name, argument in arguments.items():
        for row, value in enumerate(argument if batched else [argument]):
            is_pair = batched and text_pair is None and isinstance(value, list | tuple) and len(value) == 2
            if _is_text(value, split) or (is_pair and all(_is_text(part, split) for part in value)):
                continue
            wanted = "a list of words" if split else "a text"
            where = f"`{name}`, row {row}," if batched else f"`{name}`"
            raise ValueError(f"{where} must be {wanted}, of whole characters; found {str(value)[:60]!r}.")


def _is_text(value: Any, split: bool) -> bool:
    if not split:
        return _is_whole(value)
    return isinstance(value, list | tuple) and all(map(_is_whole, value))


def _is_whole(word: Any) -> bool:
    """Return True for a text without surrogates, halves of a character in UTF-16, which JSON can hold.

    UTF-8 and so the backends cannot hold them.
    """
    return isinstance(word, str) and (word.isascii() or re.search("[\ud800-\udfff]", word) is None)
