"""Model inputs for lists of words with a label per word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel
from transformers import BatchEncoding, PreTrainedTokenizerBase

IGNORED = -100
"""Label of tokens that the loss ignores."""


def prepare_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Set up a tokenizer for lists of words.

    Byte-level tokenizers (RoBERTa) mark the beginning of a word by the space before it, so `add_prefix_space` is set
    and saved with the tokenizer.

    Raises:
        ValueError: the tokenizer is slow, so it cannot map tokens to words.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, and cannot map tokens to words: load it with"
            " AutoTokenizer, or choose a model that has a tokenizer.json."
        )
    splitter = tokenizer.backend_tokenizer.pre_tokenizer
    if isinstance(splitter, ByteLevel):
        splitter.add_prefix_space = tokenizer.add_prefix_space = True


def word_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, label_ids: dict[str, int]
) -> BatchEncoding:
    """Tokenize a batch of sentences, with `labels` on the first token of each word and -100 on the others.

    If a sentence has no labels, the first tokens of its words get 0, to mark their positions. `visible_word_ids` has
    the indices of the words with tokens. Words of control characters may have no tokens, and words after `max_length`
    tokens are cut off.
    """
    return _features(examples, tokenizer, max_length, label_ids, None)


def subword_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, label_ids: dict[str, int]
) -> BatchEncoding:
    """Tokenize as `word_features` does, but label all tokens of a word; `B-` becomes `I-` after the first token."""
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
