"""Model inputs of lists of words, with a label for each word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel
from transformers import BatchEncoding, PreTrainedTokenizerBase

IGNORED = -100
"""The label of tokens that the loss leaves out."""


def prepare_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Make a tokenizer ready for sentences that are lists of words.

    A byte-level one (RoBERTa) tells the beginning of a word by the blank before it. It is made to put one there, and
    remembers that when it is saved.

    Raises:
        ValueError: it is not a fast one, which alone knows the word that a token is from.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} is not a fast tokenizer; only these know which word a token is from: load it"
            " with AutoTokenizer, or pick a model that has a tokenizer.json."
        )
    splitter = tokenizer.backend_tokenizer.pre_tokenizer
    if isinstance(splitter, ByteLevel):
        splitter.add_prefix_space = tokenizer.add_prefix_space = True


def word_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, label_ids: dict[str, int]
) -> BatchEncoding:
    """Return sentences as model inputs with `labels`, which the first token of each word carries.

    Other tokens have the label -100. The first tokens of sentences without labels get 0, which tells the places.
    `visible_word_ids` has the number of each word that has a token: the tokenizer makes nothing of some (control
    characters), and those behind `max_length` are cut off.
    """
    return _features(examples, tokenizer, max_length, label_ids, None)


def subword_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, label_ids: dict[str, int]
) -> BatchEncoding:
    """Return sentences as `word_features` does, but label all tokens of a word, after the first with I- for B-."""
    inside = {i: label_ids.get(f"I-{name[2:]}", i) if name[:2] == "B-" else i for name, i in label_ids.items()}
    return _features(examples, tokenizer, max_length, label_ids, inside.__getitem__)


def _features(
    examples: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    label_ids: dict[str, int],
    continued: Callable[[int], int] | None,
) -> BatchEncoding:
    encoded = tokenizer(examples["tokens"], is_split_into_words=True, truncation=True, max_length=max_length)
    encoded["labels"], encoded["visible_word_ids"] = [], []
    for row, names in enumerate(examples["labels"]):
        labels: list[int] = []
        seen: list[int] = []
        for word in encoded.word_ids(row):
            if word is None:
                labels.append(IGNORED)
            elif word in seen[-1:]:
                labels.append(continued(labels[-1]) if continued else IGNORED)
            else:
                labels.append(label_ids[names[word]] if names else 0)
                seen.append(word)
        encoded["labels"].append(labels)
        encoded["visible_word_ids"].append(seen)
    return encoded
