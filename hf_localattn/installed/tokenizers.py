"""Checks of tokenizers and of their inputs, and building one from a backbone's tokenizer."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from typing import Any

from hf_localattn.models.tokenization_local_attention import is_batch
from hf_localattn.parsing import parse_json, read_utf8

# Settings that describe where a tokenizer was loaded from, or the padding and truncation saved in its file. Calls
# choose padding and truncation themselves.
NOT_CARRIED_OVER = {
    *("vocab_file", "merges_file", "tokenizer_file", "special_tokens_map_file", "added_tokens_decoder", "auto_map"),
    *("vocab", "merges", "tokenizer_object", "is_local", "local_files_only", "add_bos_token", "add_eos_token"),
    *("max_length", "stride", "truncation_strategy", "pad_to_multiple_of"),
}

CARRIED_OVER = (
    *("name_or_path", "model_max_length", "padding_side", "truncation_side", "model_input_names", "chat_template"),
    *("clean_up_tokenization_spaces", "split_special_tokens"),
)


def check_tokenizer(path: str) -> None:
    """Raise `ValueError` if a `tokenizer_config.json` names files or Python objects."""
    name = os.path.basename(path)
    settings = parse_json(read_utf8(path), name)
    if not isinstance(settings, dict):
        raise ValueError(f"{name} is {str(settings)[:80]!r}; it must be an object of names and values.")
    for entry, value in settings.items():
        names_a_file = entry.endswith(("_file", "_files")) or entry in ("init_inputs", "tokenizer_object")
        # Many published files still name the source of their special tokens. This entry is not read.
        if names_a_file and value not in (None, []) and entry != "special_tokens_map_file":
            raise ValueError(
                f"{name}: `{entry}` is {str(value)[:80]!r}; a tokenizer is read from the files next to it: remove it."
            )


def build_tokenizer(cls: Any, tokenizer: Any, **settings: Any) -> Any:
    """Build a tokenizer of a class, as `from_backbone` of the class documents."""
    if unknown := [name for name in settings if name not in cls.SETTINGS]:
        raise ValueError(f"{cls.__name__} has no setting {unknown[0]!r}; it has {', '.join(cls.SETTINGS)}.")
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
    fields["model_specific_special_tokens"] = {}
    added = {str(token): token for token in tokenizer.added_tokens_decoder.values()}  # with their flags
    for name, token in tokenizer.special_tokens_map.items():
        is_specific = name not in cls.SPECIAL_TOKENS_ATTRIBUTES
        (fields["model_specific_special_tokens"] if is_specific else fields)[name] = added.get(token, token)
    fields = {name: value for name, value in fields.items() if value not in (None, [], {})}
    backend = deepcopy(tokenizer.backend_tokenizer)
    if hasattr(backend.pre_tokenizer, "add_prefix_space"):  # the backend decides, not the arguments
        fields["add_prefix_space"] = backend.pre_tokenizer.add_prefix_space
    backend.no_truncation()  # left by calls; both would become settings
    backend.no_padding()
    return cls(tokenizer_object=backend, **(fields | settings))


def check_texts(text: Any, text_pair: Any, split: bool) -> None:
    """Raise `ValueError` if the arguments of a call are not texts, pairs or batches. The message names the row.

    With `split` texts are lists of words.
    """
    batched = is_batch(text, split)
    if batched and not text:
        raise ValueError("`text` is an empty batch: give at least one text.")
    if batched and text_pair is not None and (not is_batch(text_pair, split) or len(text_pair) != len(text)):
        raise ValueError(f"`text` is a batch of {len(text)}: `text_pair` must be a batch of the same size.")
    for name, given in (("text", text), ("text_pair", text_pair)):
        if given is None and name == "text_pair":
            continue
        for row, one in enumerate(given if batched else [given]):
            is_pair = batched and text_pair is None and not _is_text(one, split)
            parts = one if is_pair and isinstance(one, list | tuple) and len(one) == 2 else [one]
            if not all(_is_text(part, split) for part in parts):
                kind = "a list of words" if split else "a text"
                where = f"`{name}`, row {row}," if batched else f"`{name}`"
                raise ValueError(f"{where} must be {kind}, of whole characters; found {str(one)[:60]!r}.")


def _is_text(one: Any, split: bool) -> bool:
    words = one if split and isinstance(one, list | tuple) else [None if split else one]
    return all(isinstance(word, str) and (word.isascii() or _HALF.search(word) is None) for word in words)


# Surrogates, halves of a character in UTF-16. JSON can hold them, but UTF-8 and so the backends cannot.
_HALF = re.compile("[\ud800-\udfff]")
