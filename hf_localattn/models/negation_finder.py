"""Cues of negation and their scopes in sentences of words, by a token classifier.

A sentence without cue markers asks for its cues: each word has `O` or the label of a cue, such as `negation:single`. A
sentence with cue markers asks for the scope of the marked cue: each word has `O` or `SCOPE`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .cue_markers import CUE_MARKER, mark_cues
from .forward_inputs import accepted_inputs, longest_input, without_pads

OUTSIDE, INSIDE = SCOPE_LABELS = ("O", "SCOPE")
"""Labels of words outside the scope, and of words in it."""

CUE_KINDS = ("negation", "speculation")

CUE_TYPES = ("affix", "single", "multi")
"""Types of cues: part of a word (`in` of `infrequent`), one word, several words."""

CUE_LABELS = tuple(f"{kind}:{cue_type}" for kind in CUE_KINDS for cue_type in CUE_TYPES)
"""Labels of the words of cues, such as "negation:affix"."""

NO_WORD = -1
"""Word index of tokens that belong to no word of the sentence: special tokens and cue markers."""

TOKENS_AT_A_TIME = 1024
"""Largest number of tokens of a forward pass, with padding."""

MARKER_ROOM = 8
"""Number of tokens of an input that are reserved for cue markers."""


@dataclass(frozen=True)
class FoundCue:
    """A cue that was predicted."""

    kind: str  # one of `CUE_KINDS`
    type: str  # one of `CUE_TYPES`
    words: tuple[int, ...]  # their indices in the sentence


def group_cues(labels: Sequence[str]) -> list[FoundCue]:
    """Return the cues in the predicted labels of a sentence's words, in the order of their first words.

    A word with the label of an affix or a single word is a cue. Adjacent words of a `multi` label are one cue (`no
    longer`). Isolated words of a `multi` label are parts of one cue (`neither ... nor`), or a single word if there is
    only one.
    """
    cues, isolated = [], dict[str, list[int]]()
    for label, run in groupby(range(len(labels)), key=labels.__getitem__):
        kind, _, cue_type = label.partition(":")
        words = tuple(run)
        if cue_type == "multi" and len(words) > 1:
            cues.append(FoundCue(kind, cue_type, words))
        elif cue_type == "multi":
            isolated.setdefault(kind, []).extend(words)
        elif label in CUE_LABELS:
            cues += [FoundCue(kind, cue_type, (word,)) for word in words]
    cues += [FoundCue(kind, "multi" if len(own) > 1 else "single", tuple(own)) for kind, own in isolated.items()]
    return sorted(cues, key=lambda cue: cue.words)


@dataclass(frozen=True)
class Finding:
    """A cue that was found, with its scope. Scores are mean probabilities of the words' labels."""

    cue: FoundCue
    score: float
    scope: list[bool]  # True for each word in scope
    scope_score: float


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
        labels = [str(label) for label in model.config.id2label.values()]
        self.cue_names = [OUTSIDE, *(label for label in labels if label in CUE_LABELS)]
        self.kinds = list(dict.fromkeys(name.partition(":")[0] for name in self.cue_names[1:])) or [CUE_KINDS[0]]
        if not set(labels) >= set(SCOPE_LABELS):
            raise ValueError(
                f"{type(model).__name__} does not predict scopes: its labels are {', '.join(labels)}. Train it with"
                " `run_ner.py --task negation --detect_cues`."
            )
        if not getattr(tokenizer, "is_fast", False) or not knows_cues(tokenizer):
            raise ValueError(f"{type(tokenizer).__name__} is no fast tokenizer with cue markers: load the model's.")
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
        batches = (queries[start : start + len(sentences)] for start in range(0, len(queries), len(sentences) or 1))
        scopes = chain.from_iterable(self.find_scopes(*zip(*batch, strict=True)) for batch in batches)
        return [[Finding(cue, score, *next(scopes)) for cue, score in own] for own in cues]

    def find_cues(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[FoundCue, float]]]:
        """Return the cues of each sentence, each with its score."""
        known = [words for words in sentences if words]
        if known and len(self.cue_names) < 2:
            raise ValueError(f"{type(self.model).__name__} finds no cues: mark the cue in the text with {CUE_MARKER}.")
        labeled = self._label(self.cue_names, known, [[0] * len(words) for words in known], [None] * len(known))
        found: list[list[tuple[FoundCue, float]]] = []
        for words in sentences:
            found.append([])
            if words:
                probabilities, seen = next(labeled)
                values, best = probabilities.max(dim=-1)
                labels = [self.cue_names[i] if is_seen else OUTSIDE for i, is_seen in zip(best, seen, strict=True)]
                found[-1] += [(cue, float(values[list(cue.words)].mean())) for cue in group_cues(labels)]
        return found

    def find_scopes(
        self, sentences: Sequence[Sequence[str]], cues: Sequence[FoundCue]
    ) -> list[tuple[list[bool], float]]:
        """Return the scope of one cue of each sentence, with its score."""
        marked = [[int(i in cue.words) for i in range(len(words))] for words, cue in zip(sentences, cues, strict=True)]
        types = [cue.type for cue in cues]
        scopes = []
        for probabilities, seen in self._label(SCOPE_LABELS, sentences, marked, types):
            values, best = probabilities.max(dim=-1)
            score = float(values[seen].mean()) if seen.any() else 0.0
            scopes.append((((best == 1) & seen).tolist(), score))
        return scopes

    def _label(
        self,
        names: Sequence[str],
        sentences: Sequence[Sequence[str]],
        cues: Sequence[Sequence[int]],
        cue_types: Sequence[str | None],
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the probabilities (words, names) of some labels for each sentence, and a mask of the seen words."""
        if not sentences:
            return
        truncation = {} if self.limit is None else {"truncation": True, "max_length": self.limit}
        encoded, word_numbers = encode_marked(self.tokenizer, sentences, cues, cue_types, **truncation)
        labels = {name: number for number, name in self.model.config.id2label.items()}
        columns, logits = [labels[name] for name in names], dict[int, torch.Tensor]()
        for rows in batches_of_like_lengths([len(numbers) for numbers in word_numbers]):
            inputs = {name: [values[row] for row in rows] for name, values in encoded.items()}
            batch = self.tokenizer.pad(inputs, return_tensors="pt", verbose=False).to(self.model.device)
            output = self.model(**accepted_inputs(self.model, batch), return_dict=True)
            logits |= zip(rows, output.logits.float().cpu(), strict=True)
        for row, (words, numbers) in enumerate(zip(sentences, word_numbers, strict=True)):
            own = without_pads(logits[row], len(numbers), self.tokenizer)
            means, seen = word_logits(own[:, columns], numbers, len(words))
            yield means.softmax(dim=-1), seen


def batches_of_like_lengths(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of rows with little padding: at most `TOKENS_AT_A_TIME` tokens with it, or one row."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > TOKENS_AT_A_TIME:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def encode_marked(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    cues: Sequence[Sequence[int]],
    cue_types: Sequence[str | None],
    **kwargs: Any,
) -> tuple[BatchEncoding, list[list[int]]]:
    """Tokenize sentences with a marker before each word of their cues.

    `cues` has 1 for each word of a sentence's cue and 0 for other words; all zeros ask for the cues of the sentence.
    Only tokenizers with typed markers use `cue_types`. Returns the encoding, and for each sentence the index of each
    token's word, counted without markers, or `NO_WORD`.
    """
    has_types = hasattr(tokenizer, "cue_marker")
    marked = [
        mark_cues(words, cue, cue_type if has_types and any(cue) else None)
        for words, cue, cue_type in zip(sentences, cues, cue_types, strict=True)
    ]
    encoded = tokenizer(marked, is_split_into_words=True, **kwargs)
    word_numbers = []
    for row, cue in enumerate(cues):
        numbers = [number for word, is_cue in enumerate(cue) for number in ([NO_WORD, word] if is_cue else [word])]
        word_numbers.append([NO_WORD if place is None else numbers[place] for place in encoded.word_ids(row)])
    return encoded, word_numbers


def word_logits(logits: torch.Tensor, word_numbers: Sequence[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean logits (words, labels) of each word's tokens, and a mask (words,) of the words with a token.

    `logits` are (>= tokens, labels). `word_numbers` are those of `encode_marked`, `length` is the number of words.
    """
    numbers = torch.as_tensor(word_numbers, dtype=torch.long)
    tokens = (numbers != NO_WORD).nonzero()[:, 0]
    words = numbers[tokens]
    sums = torch.zeros(length, logits.shape[-1], dtype=torch.float64).index_add_(0, words, logits[tokens].double())
    counts = torch.bincount(words, minlength=length)
    return sums / counts.clamp(min=1)[:, None], counts > 0


def knows_cues(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if a tokenizer has a cue marker."""
    return CUE_MARKER in tokenizer.get_added_vocab()
