"""Model inputs for sentences with a marked cue, and the conversion of logits to the words in its scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from hf_localattn.data.features.words import IGNORED
from hf_localattn.models.oa_cues import CUE_MARKER, mark_cues

OUTSIDE, INSIDE = SCOPE_LABELS = ("O", "SCOPE")
"""Labels of words outside the scope, and of words in it."""

NO_WORD = -1
"""Word index of tokens that belong to no word of the sentence: special tokens and cue markers."""


def check_knows_cues(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise `ValueError` if a tokenizer has no cue markers. Its model could not tell which cue is meant."""
    if CUE_MARKER not in tokenizer.get_added_vocab():
        raise ValueError(
            f"The tokenizer ({type(tokenizer).__name__}) has no cue marker {CUE_MARKER}, so the model cannot know"
            " which cue is meant: use --family oa-xlnet, with --local_config local_attention=none for the baseline"
            " (backbone, dropout, linear layer); in Python `OaXLNetTokenizer.from_backbone(tokenizer)`, and a model"
            " that was trained with it."
        )


def scope_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, label_ids: dict[str, int]
) -> BatchEncoding:
    """Tokenize a batch of sentences with marked cues.

    Args:
        examples: columns `tokens`, `cue`, `cue_type` and `scope`; `scope` is empty if unknown.
        tokenizer: tokenizer with cue markers, see `check_knows_cues`.
        max_length: maximum number of tokens; longer inputs are cut.
        label_ids: index of each of `SCOPE_LABELS`.

    Returns:
        The model inputs, `labels` and `word_numbers`. Tokens have the label of their word; special tokens and
        markers have -100. If the scope is unknown, all labels are -100. `word_numbers` is the index of each token's
        word in the sentence, counted without markers, or `NO_WORD`.
    """
    columns = zip(examples["tokens"], examples["cue"], examples["cue_type"], strict=True)
    marked = [mark_cues(tokens, cue, cue_type) for tokens, cue, cue_type in columns]
    encoded = tokenizer(marked, is_split_into_words=True, truncation=True, max_length=max_length)
    encoded["labels"], encoded["word_numbers"] = [], []
    for row, (cue, scope) in enumerate(zip(examples["cue"], examples["scope"], strict=True)):
        numbers = _numbers_without_markers(cue)
        words = [NO_WORD if place is None else numbers[place] for place in encoded.word_ids(row)]
        known = [label_ids[INSIDE if inside else OUTSIDE] for inside in scope] or [IGNORED] * len(cue)
        encoded["labels"].append([IGNORED if word == NO_WORD else known[word] for word in words])
        encoded["word_numbers"].append(words)
    return encoded


def words_in_scope(logits: np.ndarray, word_numbers: Sequence[int], length: int, inside: int) -> list[int]:
    """Return 1 for each word of a sentence that is in scope, and 0 for every other word.

    The logits of a word are the mean over its tokens. A word without tokens is not in scope.

    Args:
        logits: (>= tokens, labels); rows after the last token are padding.
        word_numbers: word index of each token, from `scope_features`.
        length: number of words of the sentence.
        inside: index of the label of words in scope.
    """
    numbers = np.asarray(word_numbers, dtype=int)
    tokens = np.flatnonzero(numbers != NO_WORD)
    sums = np.zeros((length, logits.shape[-1]))
    np.add.at(sums, numbers[tokens], logits[tokens])
    counts = np.bincount(numbers[tokens], minlength=length)
    means = sums / np.maximum(counts, 1)[:, None]
    return ((means.argmax(axis=-1) == inside) & (counts > 0)).astype(int).tolist()


@dataclass(frozen=True)
class ScopeExamples:
    """Rows of a split, with the mapping from their features back to their words.

    Attributes:
        rows: all rows, with the columns `tokens`, `cue` and `scope`.
        kept: index of the row of each feature. Rows whose cue the model does not see have no feature.
        word_numbers: `word_numbers` of each feature.
    """

    rows: Dataset
    kept: list[int]
    word_numbers: list[list[int]]

    @property
    def true_scopes(self) -> list[list[int]] | None:
        """The scope of each row; None if unknown."""
        scopes: list[list[int]] = self.rows["scope"][:]
        return scopes if any(scopes) else None

    def scopes(self, logits: np.ndarray, inside: int) -> list[list[int]]:
        """Return the scope of each row, all 0 for rows without a feature.

        Args:
            logits: (features, tokens, labels).
            inside: index of the label of words in scope.
        """
        scopes = [[0] * len(cue) for cue in self.rows["cue"][:]]
        for row, numbers, own in zip(self.kept, self.word_numbers, logits, strict=True):
            scopes[row] = words_in_scope(own, numbers, len(scopes[row]), inside)
        return scopes


@dataclass(frozen=True)
class Unseen:
    """Cues and words without tokens: they are cut off, or the tokenizer drops them.

    Attributes:
        cues: indices of the rows without any token of their cue.
        parts: indices of the rows with tokens of some, but not all, words of their cue.
        words: number of words without tokens in each row.
    """

    cues: list[int]
    parts: list[int]
    words: list[int]


def find_unseen(rows: Dataset, features: Dataset) -> Unseen:
    """Find the cues and words that have no tokens in the features of their rows."""
    cues, parts, words = [], [], []
    for row, (cue, numbers) in enumerate(zip(rows["cue"][:], features["word_numbers"][:], strict=True)):
        seen = set(numbers) - {NO_WORD}
        words.append(len(cue) - len(seen))
        seen_of_cue = sum(cue[word] for word in seen)
        if not seen_of_cue:
            cues.append(row)
        elif seen_of_cue < sum(cue):
            parts.append(row)
    return Unseen(cues, parts, words)


def _numbers_without_markers(cue: Sequence[int]) -> list[int]:
    """Return the word index of each item of `mark_cues`, and `NO_WORD` for the markers before the words of a cue."""
    numbers: list[int] = []
    for word, is_cue in enumerate(cue):
        numbers += [NO_WORD, word] if is_cue else [word]
    return numbers
