"""Model inputs of rows of negation, and the conversion of logits to the words in scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from hf_localattn.data.words import IGNORED
from hf_localattn.models.cue_markers import CUE_MARKER
from hf_localattn.models.negation_conventions import limit_scope
from hf_localattn.models.negation_labels import INSIDE, NO_WORD, OUTSIDE, SCOPE_LABELS
from hf_localattn.models.negation_model import encode_marked, knows_cues, word_logits


def check_knows_cues(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise `ValueError` if a tokenizer has no cue markers. Its model could not tell which cue is meant."""
    if not knows_cues(tokenizer):
        raise ValueError(
            f"The tokenizer ({type(tokenizer).__name__}) has no cue marker {CUE_MARKER}: use that of the training."
            " `run_ner.py --do_train` adds the marker; in Python, `OaXLNetTokenizer.from_backbone(tokenizer)` does."
        )


def scope_features(
    examples: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_length: int, label_ids: dict[str, int]
) -> BatchEncoding:
    """Tokenize a batch of sentences, with a marker before each word of their cues; longer inputs are cut.

    `examples` have `tokens`, `cue`, `cue_type` and `scope`, which is empty if unknown. Rows without a cue ask for the
    cues of the sentence, and have the labels of its words in the column `cue_labels`. `label_ids` has the index of
    each of `SCOPE_LABELS`, and of the labels of cues. The result has `labels` (-100 for special tokens, markers and
    unknown scopes) and `word_indices`: the index of each token's word, counted without markers, or `NO_WORD`.
    """
    encoded, word_indices = encode_marked(
        tokenizer, examples["tokens"], examples["cue"], examples["cue_type"], truncation=True, max_length=max_length
    )
    encoded["labels"] = []
    encoded["word_indices"] = word_indices
    for row, (indices, cue) in enumerate(zip(word_indices, examples["cue"], strict=True)):
        if any(cue) or "cue_labels" not in examples:
            names = [INSIDE if inside else OUTSIDE for inside in examples["scope"][row]]
        else:
            names = examples["cue_labels"][row]
        labels = [label_ids[name] for name in names] or [IGNORED] * len(cue)
        encoded["labels"].append([IGNORED if word == NO_WORD else labels[word] for word in indices])
    return encoded


def word_labels(logits: np.ndarray, word_indices: Sequence[int], length: int, names: Sequence[str]) -> list[str]:
    """Return the best label of each word of a sentence, by the mean logits of its tokens.

    `logits` are (>= tokens, labels) with `word_indices` of the tokens. Words without tokens have the first label.
    """
    means, seen = word_logits(torch.from_numpy(np.array(logits, order="C")), word_indices, length)
    best = (means.argmax(dim=-1) * seen).tolist()
    return [names[label] for label in best]


@dataclass(frozen=True)
class ScopeExamples:
    """Rows of a split, and the row and `word_indices` of each feature; a cue that the model does not see has none."""

    rows: Dataset
    kept: list[int]
    word_indices: list[list[int]]

    @property
    def true_scopes(self) -> list[list[int]] | None:
        """The scope of each row; None if unknown."""
        scopes: list[list[int]] = self.rows["scope"][:]
        return scopes if any(scopes) else None

    def scopes(self, logits: np.ndarray, names: Sequence[str], convention: str) -> list[list[int]]:
        """Return the scope of each row by a convention, from logits (features, tokens, labels).

        Rows without a feature have an empty scope.
        """
        columns = [names.index(name) for name in SCOPE_LABELS]
        sentences = self.rows["tokens"][:]
        cues = self.rows["cue"][:]
        scopes = [[0] * len(cue) for cue in cues]
        for row, indices, row_logits in zip(self.kept, self.word_indices, logits, strict=True):
            labels = word_labels(row_logits[:, columns], indices, len(scopes[row]), SCOPE_LABELS)
            scope = [label == INSIDE for label in labels]
            cue = [word for word, is_cue in enumerate(cues[row]) if is_cue]
            if cue:
                scope = limit_scope(convention, sentences[row], cue, scope)
            scopes[row] = list(map(int, scope))
        return scopes


def count_unseen(rows: Dataset, features: Dataset) -> tuple[list[int], list[int]]:
    """Count the words of each row, and of its cue, without tokens: they are cut off, or the tokenizer drops them."""
    words = []
    cue_words = []
    for cue, indices in zip(rows["cue"][:], features["word_indices"][:], strict=True):
        seen = set(indices) - {NO_WORD}
        words.append(len(cue) - len(seen))
        cue_words.append(sum(cue) - sum(cue[word] for word in seen))
    return words, cue_words
