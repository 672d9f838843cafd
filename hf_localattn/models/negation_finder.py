"""Prediction of cues and of their scopes with a token classifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from .cue_labels import OUTSIDE, SCOPE_LABELS, FoundCue, group_cues, is_cue_label
from .forward_inputs import accepted_inputs, longest_input
from .marked_words import encode_marked, knows_cues, word_logits
from .window_logits import without_pads

MARKER_ROOM = 8
"""Number of tokens of an input that are reserved for cue markers."""


@dataclass(frozen=True)
class Scope:
    """The scope of a cue.

    Attributes:
        words: True for each word in scope.
        score: Mean probability of the words' labels.
    """

    words: list[bool]
    score: float


@dataclass(frozen=True)
class Finding:
    """A cue that was found, with its scope.

    Attributes:
        cue: The cue.
        score: Mean probability of the labels of its words.
        scope: Its scope.
    """

    cue: FoundCue
    score: float
    scope: Scope


class NegationFinder:
    """Finds cues and scopes in sentences that are split into words.

    Args:
        model: A token classification model. It labels cues in sentences without markers, and scopes in sentences with
            markers.
        tokenizer: The fast tokenizer of the model, with cue markers.
        max_length (int, *optional*): Maximum number of tokens of an input. By default the model's limit.

    Raises:
        ValueError: The model or the tokenizer is for another task.
    """

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None):
        self.model, self.tokenizer = model, tokenizer
        labels = model.config.id2label.values()
        self.cue_names = [OUTSIDE, *filter(is_cue_label, labels)]
        for names in (self.cue_names, SCOPE_LABELS):
            if len(names) < 2 or not set(labels) >= set(names):
                raise ValueError(
                    f"{type(model).__name__} does not find cues and their scopes: its labels are"
                    f" {', '.join(map(str, labels))}. Train it with `run_ner.py --task negation --detect_cues`."
                    " If the cues are known, `find_scope` needs only the label SCOPE."
                )
        if not getattr(tokenizer, "is_fast", False) or not knows_cues(tokenizer):
            raise ValueError(
                f"{type(tokenizer).__name__} is not a fast tokenizer with cue markers: load the tokenizer of the"
                " checkpoint with AutoTokenizer."
            )
        self.limit = longest_input(model, tokenizer) if max_length is None else max_length

    def pieces(self, words: Sequence[str]) -> list[range]:
        """Return the ranges of words that the model can take at once, the whole sentence if possible.

        A longer sentence is cut after punctuation, if there is any in the second half of a piece.
        """
        if self.limit is None:
            return [range(len(words))]
        room = self.limit - self.tokenizer.num_special_tokens_to_add()
        room = max(room - MARKER_ROOM, room // 2, 1)
        if len(self.tokenizer.tokenize(" ".join(words))) <= room:
            return [range(len(words))]
        counts = [len(self.tokenizer.tokenize(word)) for word in words]
        pieces, start, size = [], 0, 0
        for end, count in enumerate(counts):
            while size + count > room and end > start:
                middle = (start + end) // 2
                stops = (stop for stop in range(end, middle, -1) if not any(map(str.isalnum, words[stop - 1])))
                stop = next(stops, end)
                pieces.append(range(start, stop))
                start, size = stop, sum(counts[stop:end])
            size += count
        return [*pieces, range(start, len(words))]

    def find(self, sentences: Sequence[Sequence[str]]) -> list[list[Finding]]:
        """Return the cues of each sentence and their scopes. Batches have at most `len(sentences)` inputs."""
        cues = self.find_cues(sentences)
        queries = [(words, cue) for words, own in zip(sentences, cues, strict=True) for cue, _ in own]
        scopes: list[Scope] = []
        for start in range(0, len(queries), max(len(sentences), 1)):
            batch = queries[start : start + len(sentences)]
            scopes += self.find_scopes([words for words, _ in batch], [cue for _, cue in batch])
        remaining = iter(scopes)
        return [[Finding(cue, score, next(remaining)) for cue, score in own] for own in cues]

    def find_cues(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[FoundCue, float]]]:
        """Return the cues of each sentence, each with the mean probability of its words' labels."""
        known = [words for words in sentences if words]
        unmarked = [[0] * len(words) for words in known]
        found = []
        for probabilities, seen in self._label(self.cue_names, known, unmarked, [None] * len(known)):
            values, best = probabilities.max(dim=-1)
            labels = [self.cue_names[i] if is_seen else OUTSIDE for i, is_seen in zip(best, seen, strict=True)]
            found.append([(cue, float(values[list(cue.words)].mean())) for cue in group_cues(labels)])
        remaining = iter(found)
        return [next(remaining) if words else [] for words in sentences]

    def find_scopes(self, sentences: Sequence[Sequence[str]], cues: Sequence[FoundCue]) -> list[Scope]:
        """Return the scope of one cue of each sentence."""
        marked = [[int(i in cue.words) for i in range(len(words))] for words, cue in zip(sentences, cues, strict=True)]
        types = [cue.type for cue in cues]
        scopes = []
        for probabilities, seen in self._label(SCOPE_LABELS, sentences, marked, types):
            values, best = probabilities.max(dim=-1)
            score = float(values[seen].mean()) if seen.any() else 0.0
            scopes.append(Scope(((best == 1) & seen).tolist(), score))
        return scopes

    def _label(self, names: Sequence[str], *columns: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return word_probabilities(self.model, self.tokenizer, names, self.limit, *columns)


def word_probabilities(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    names: Sequence[str],
    limit: int | None,
    sentences: Sequence[Sequence[str]],
    cues: Sequence[Sequence[int]],
    cue_types: Sequence[str | None],
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the probabilities of some labels for the words of each sentence of a batch.

    Args:
        model: A token classification model.
        tokenizer: Its fast tokenizer, with cue markers.
        names: Labels of the model.
        limit: Maximum number of tokens of an input, or None.
        sentences: Words of each sentence.
        cues: For each sentence a list with 1 for each word of the cue and 0 for other words.
        cue_types: Type of each sentence's cue, or None.

    Yields:
        Probabilities (words, names), and a boolean mask (words,) of the words that the model sees.
    """
    if not sentences:
        return
    truncation = {} if limit is None else {"truncation": True, "max_length": limit}
    encoded, word_numbers = encode_marked(tokenizer, sentences, cues, cue_types, **truncation)
    batch = tokenizer.pad(dict(encoded), return_tensors="pt", verbose=False).to(model.device)
    logits = model(**accepted_inputs(model, batch), return_dict=True).logits.float().cpu()
    labels = {name: number for number, name in model.config.id2label.items()}
    columns = [labels[name] for name in names]
    for words, numbers, padded in zip(sentences, word_numbers, logits, strict=True):
        own = without_pads(padded, len(numbers), tokenizer)
        means, seen = word_logits(own[:, columns], numbers, len(words))
        yield means.softmax(dim=-1), seen
