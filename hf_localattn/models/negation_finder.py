"""Cues of negation and their scopes in texts or sentences of words, by a token classifier.

A sentence without cue markers asks for its cues: each word has `O` or the label of a cue, such as `negation:single`. A
sentence with cue markers asks for the scope of the marked cue: each word has `O` or `SCOPE`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .cue_markers import ANY_MARKER, CUE_MARKER, mark_cues
from .forward_inputs import accepted_inputs, longest_input, without_pads
from .negation_conventions import CONVENTIONS, is_cue, limit_scope
from .negation_text import Offsets, affix_offsets, join_over_blanks, split_sentences, split_words
from .word_beginnings import check_word_beginnings

OUTSIDE = "O"
INSIDE = "SCOPE"
SCOPE_LABELS = (OUTSIDE, INSIDE)
"""Labels of words outside the scope, and of words in it."""

CUE_KINDS = ("negation", "speculation")

CUE_TYPES = ("affix", "single", "multi")
"""Types of cues: part of a word (`in` of `infrequent`), one word, several words."""

CUE_LABELS = tuple(f"{kind}:{cue_type}" for kind in CUE_KINDS for cue_type in CUE_TYPES)
"""Labels of the words of cues, such as "negation:affix"."""

NO_WORD = -1
"""Word index of tokens that belong to no word of the sentence: special tokens and cue markers."""

UNSEEN = ""
"""Label of words without a token: they are cut off, or the tokenizer drops them."""

TOKENS_ON_CPU = 256
"""Largest number of tokens of a forward pass, with padding: more do not fit into the cache of a core."""

TOKENS_ON_GPU = 8192
"""The same on other devices."""

SENTENCES_AT_A_TIME = 1024
"""Number of sentences that are sorted by length and read together."""

MARKER_ROOM = 8
"""Number of tokens of an input that are reserved for cue markers."""

# The white space after a marker belongs to it. Several markers in a row mark one word.
_MARKER = re.compile(rf"(?:(?:{ANY_MARKER})\s*)+")


@dataclass(frozen=True)
class FoundCue:
    """A cue that was predicted, or that the text marks."""

    kind: str  # one of `CUE_KINDS`
    type: str  # one of `CUE_TYPES`
    words: tuple[int, ...]  # their indices in the sentence


def group_cues(labels: Sequence[str]) -> list[FoundCue]:
    """Return the cues in the predicted labels of a sentence's words, in the order of their first words.

    A word with the label of an affix or a single word is a cue. Adjacent words of a `multi` label are one cue (`no
    longer`). Isolated words of a `multi` label are parts of one cue (`neither ... nor`), or a single word if there is
    only one.
    """
    cues: list[FoundCue] = []
    isolated: dict[str, list[int]] = {}
    for label, run in groupby(range(len(labels)), key=labels.__getitem__):
        if label not in CUE_LABELS:
            continue
        kind, _, cue_type = label.partition(":")
        words = tuple(run)
        if cue_type != "multi":
            cues += [FoundCue(kind, cue_type, (word,)) for word in words]
        elif len(words) > 1:
            cues.append(FoundCue(kind, cue_type, words))
        else:
            isolated.setdefault(kind, []).extend(words)
    for kind, parts in isolated.items():
        cues.append(FoundCue(kind, "multi" if len(parts) > 1 else "single", tuple(parts)))
    return sorted(cues, key=lambda cue: cue.words)


@dataclass(frozen=True)
class Finding:
    """A cue with its scope. Scores are mean probabilities of the words' labels."""

    cue: FoundCue
    score: float
    scope: list[bool]  # True for each word in scope
    scope_score: float


@dataclass(frozen=True)
class Piece:
    """A sentence of a text, or a part of a sentence that is too long for the model."""

    words: list[str]
    offsets: list[Offsets]
    sentence: Offsets  # of the whole sentence
    cue: FoundCue | None = None  # the cue that the text marks; None if the cues are to be found


@dataclass(frozen=True)
class WordLabels:
    """The predicted labels of a sentence's words, with their probabilities."""

    labels: list[str]
    probabilities: list[float]

    def score(self, words: Sequence[int]) -> float:
        """Return the mean probability of some words that have a label; 0 without any."""
        values = [self.probabilities[word] for word in words if self.labels[word] != UNSEEN]
        return sum(values) / max(len(values), 1)


class NegationFinder:
    """Finds cues and scopes in texts, or in sentences that are split into words.

    Args:
        model: A token classification model.
        tokenizer: The fast tokenizer of the model, with cue markers.
        max_length (int, *optional*): Maximum number of tokens of an input. By default the model's limit.

    Raises:
        ValueError: The model or the tokenizer is for another task.
    """

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None):
        self.model = model
        self.tokenizer = tokenizer
        self.label_ids = {str(label): index for index, label in model.config.id2label.items()}
        self.cue_names = [OUTSIDE, *(label for label in self.label_ids if label in CUE_LABELS)]
        self.kinds = list(dict.fromkeys(name.partition(":")[0] for name in self.cue_names[1:])) or [CUE_KINDS[0]]
        if not self.label_ids.keys() >= set(SCOPE_LABELS):
            raise ValueError(
                f"{type(model).__name__} does not predict scopes: its labels are {', '.join(self.label_ids)}. Train it"
                " with `run_ner.py --task negation --detect_cues`."
            )
        if not getattr(tokenizer, "is_fast", False) or not knows_cues(tokenizer):
            raise ValueError(f"{type(tokenizer).__name__} is no fast tokenizer with cue markers: load the model's.")
        check_word_beginnings(tokenizer)
        self.limit = longest_input(model, tokenizer) if max_length is None else max_length

    def __call__(
        self, texts: Sequence[str], *, split_lines: bool = False, convention: str = CONVENTIONS[0]
    ) -> list[list[dict[str, Any]]]:
        """Return the cues of each text, in its order, as `NegationPipeline` describes them.

        Args:
            texts: Texts. In those with cue markers only the marked cues are searched for their scopes.
            split_lines (bool, *optional*, defaults to False): If True, a sentence also ends at each line break.
            convention (str, *optional*, defaults to "stories"): One of `CONVENTIONS`.
        """
        pieces = [(index, piece) for index, text in enumerate(texts) for piece in self._read(text, split_lines)]
        words = [piece.words for _, piece in pieces]
        marked = [piece.cue for _, piece in pieces]
        results: list[list[dict[str, Any]]] = [[] for _ in texts]
        for (index, piece), findings in zip(pieces, self.find(words, marked, convention), strict=True):
            results[index] += [describe(texts[index], piece, finding) for finding in findings]
        return results

    def _read(self, text: str, split_lines: bool) -> Iterator[Piece]:
        """Yield the sentences of a text in pieces that the model can take; those with a marker, if it has any."""
        markers = list(_MARKER.finditer(text))
        blank = re.sub(ANY_MARKER, lambda marker: " " * len(marker[0]), text)  # of the same length
        for start, end in split_sentences(blank, split_lines):
            inside = [marker for marker in markers if start <= marker.end() < end]
            if inside or not markers:
                first = min([start, *(marker.start() for marker in inside)])
                yield from self._cut(blank, (first, end), inside)

    def _cut(self, text: str, sentence: Offsets, markers: Sequence[re.Match[str]]) -> Iterator[Piece]:
        start, end = sentence
        offsets = [(start + begin, start + stop) for begin, stop in split_words(text[start:end])]
        words = [text[begin:stop] for begin, stop in offsets]
        marked_begins = {marker.end() for marker in markers}
        cue = [index for index, (begin, _) in enumerate(offsets) if begin in marked_begins]
        named = re.search("affix|single|multi", "".join(marker[0] for marker in markers))
        for piece in self.pieces(words):
            part = slice(piece.start, piece.stop)
            marked = tuple(index - piece.start for index in cue if index in piece)
            cue_type = named[0] if named else "multi" if len(marked) > 1 else "single"
            if marked:
                yield Piece(words[part], offsets[part], sentence, FoundCue(self.kinds[0], cue_type, marked))
            elif not markers:
                yield Piece(words[part], offsets[part], sentence)

    def pieces(self, words: Sequence[str]) -> list[range]:
        """Return the ranges of words that the model can take at once, the whole sentence if possible.

        A longer sentence is cut after punctuation, if there is any in the second half of a piece.
        """
        whole = [range(len(words))]
        if self.limit is None:
            return whole
        room = self.limit - self.tokenizer.num_special_tokens_to_add()
        room = max(room - MARKER_ROOM, room // 2, 1)
        text = " ".join(words)
        if text.isascii() and len(text) + len(words) <= room:  # tokens have a character, or begin a word
            return whole
        encoded = self.tokenizer(list(words), is_split_into_words=True, add_special_tokens=False, verbose=False)
        sizes = Counter(encoded.word_ids())
        if sizes.total() <= room:
            return whole
        pieces = []
        start = 0
        size = 0
        for end in range(len(words)):
            while size + sizes[end] > room and end > start:
                middle = (start + end) // 2
                stops = (stop for stop in range(end, middle, -1) if not any(map(str.isalnum, words[stop - 1])))
                stop = next(stops, end)
                pieces.append(range(start, stop))
                start = stop
                size = sum(sizes[word] for word in range(stop, end))
            size += sizes[end]
        return [*pieces, range(start, len(words))]

    def find(
        self,
        sentences: Sequence[Sequence[str]],
        marked: Sequence[FoundCue | None] | None = None,
        convention: str = CONVENTIONS[0],
    ) -> list[list[Finding]]:
        """Return the cues of each sentence and their scopes.

        Args:
            sentences: Words of each sentence.
            marked (*optional*): The cue of each sentence; None for those whose cues are to be found, by default all.
            convention (str, *optional*, defaults to "stories"): One of `CONVENTIONS`.
        """
        marked = [None] * len(sentences) if marked is None else marked
        findings: list[list[Finding]] = []
        for start in range(0, len(sentences), SENTENCES_AT_A_TIME):
            some = slice(start, start + SENTENCES_AT_A_TIME)
            findings += self._find(sentences[some], marked[some], convention)
        return findings

    def _find(
        self, sentences: Sequence[Sequence[str]], marked: Sequence[FoundCue | None], convention: str
    ) -> list[list[Finding]]:
        unmarked = [words for words, cue in zip(sentences, marked, strict=True) if cue is None]
        predicted = iter(self.find_cues(unmarked))
        queries: list[tuple[int, FoundCue, float]] = []  # sentence, cue, score
        for index, (words, cue) in enumerate(zip(sentences, marked, strict=True)):
            if cue is not None:
                queries.append((index, cue, 1.0))
                continue
            for found_cue, score in next(predicted):
                if is_cue(convention, found_cue.type, words[found_cue.words[0]]):
                    queries.append((index, found_cue, score))
        scopes = self.find_scopes([sentences[index] for index, *_ in queries], [cue for _, cue, _ in queries])
        findings: list[list[Finding]] = [[] for _ in sentences]
        for (index, cue, score), (scope, scope_score) in zip(queries, scopes, strict=True):
            limited = limit_scope(convention, sentences[index], cue.words, scope)
            findings[index].append(Finding(cue, score, limited, scope_score))
        return findings

    def find_cues(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[FoundCue, float]]]:
        """Return the cues of each sentence, each with its score."""
        if len(self.cue_names) < 2 and any(sentences):
            raise ValueError(f"{type(self.model).__name__} finds no cues: mark the cue in the text with {CUE_MARKER}.")
        unmarked = [[0] * len(words) for words in sentences]
        labeled = self._label(self.cue_names, sentences, unmarked, [None] * len(sentences))
        return [[(cue, words.score(cue.words)) for cue in group_cues(words.labels)] for words in labeled]

    def find_scopes(
        self, sentences: Sequence[Sequence[str]], cues: Sequence[FoundCue]
    ) -> list[tuple[list[bool], float]]:
        """Return the scope of one cue of each sentence, with its score."""
        marked = [[0] * len(words) for words in sentences]
        for mask, cue in zip(marked, cues, strict=True):
            for word in cue.words:
                mask[word] = 1
        scopes = []
        for words in self._label(SCOPE_LABELS, sentences, marked, [cue.type for cue in cues]):
            scope = [label == INSIDE for label in words.labels]
            scopes.append((scope, words.score(range(len(scope)))))
        return scopes

    def _label(
        self,
        names: Sequence[str],
        sentences: Sequence[Sequence[str]],
        cues: Sequence[Sequence[int]],
        cue_types: Sequence[str | None],
    ) -> list[WordLabels]:
        """Return the most probable ones of some labels for each sentence."""
        labeled = [WordLabels([], [])] * len(sentences)
        filled = [row for row, words in enumerate(sentences) if words]
        if not filled:
            return labeled
        truncation: dict[str, Any] = {} if self.limit is None else {"truncation": True, "max_length": self.limit}
        encoded, word_indices = encode_marked(
            self.tokenizer,
            [sentences[row] for row in filled],
            [cues[row] for row in filled],
            [cue_types[row] for row in filled],
            **truncation,
        )
        columns = [self.label_ids[name] for name in names]
        most = TOKENS_ON_CPU if self.model.device.type == "cpu" else TOKENS_ON_GPU
        for batch in batches_of_like_lengths([len(indices) for indices in word_indices], most):
            inputs = {name: [values[index] for index in batch] for name, values in encoded.items()}
            tensors = self.tokenizer.pad(inputs, return_tensors="pt", verbose=False).to(self.model.device)
            output = self.model(**accepted_inputs(self.model, tensors), return_dict=True)
            tokens = []
            indices: list[int] = []
            starts = [0]
            for index, logits in zip(batch, output.logits.float().cpu(), strict=True):
                tokens.append(without_pads(logits, len(word_indices[index]), self.tokenizer)[:, columns])
                indices += [NO_WORD if word == NO_WORD else starts[-1] + word for word in word_indices[index]]
                starts.append(starts[-1] + len(sentences[filled[index]]))
            means, seen = word_logits(torch.cat(tokens), indices, starts[-1])
            probabilities, best = means.softmax(dim=-1).max(dim=-1)
            labels = [names[label] for label in best.tolist()]
            for word in (~seen).nonzero().flatten().tolist():
                labels[word] = UNSEEN
            for index, start, stop in zip(batch, starts, starts[1:], strict=False):
                labeled[filled[index]] = WordLabels(labels[start:stop], probabilities[start:stop].tolist())
        return labeled


def describe(text: str, piece: Piece, finding: Finding) -> dict[str, Any]:
    """Return a finding with the characters of its cue and scope."""
    cue = finding.cue
    parts = [piece.offsets[word] for word in cue.words]
    inside = [offsets for offsets, is_inside in zip(piece.offsets, finding.scope, strict=True) if is_inside]
    if cue.type == "affix":
        start, end = parts[0]
        begin, stop = (start + offset for offset in affix_offsets(text[start:end]))
        if (start, end) in inside:  # the rest of the word
            inside.remove((start, end))
            inside += [rest for rest in ((start, begin), (stop, end)) if rest[0] < rest[1]]
        parts = [(begin, stop)]
    start, end = piece.sentence
    return {
        "cue": [_span(text, *part) for part in parts],
        "kind": cue.kind,
        "type": cue.type,
        "score": finding.score,
        "scope": [_span(text, *span) for span in join_over_blanks(text, sorted(inside))],
        "scope_score": finding.scope_score,
        "sentence": {"start": start, "end": end},
    }


def _span(text: str, start: int, end: int) -> dict[str, Any]:
    return {"text": text[start:end], "start": start, "end": end}


def batches_of_like_lengths(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield batches of rows with little padding: at most `most` tokens with it, or one row."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > most:
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
    marked = []
    for words, cue, cue_type in zip(sentences, cues, cue_types, strict=True):
        marker_type = cue_type if has_types and any(cue) else None
        marked.append(mark_cues(words, cue, marker_type))
    encoded = tokenizer(marked, is_split_into_words=True, **kwargs)
    word_indices = []
    for row, cue in enumerate(cues):
        indices: list[int] = []
        for word, is_marked in enumerate(cue):
            indices += [NO_WORD, word] if is_marked else [word]
        word_indices.append([NO_WORD if index is None else indices[index] for index in encoded.word_ids(row)])
    return encoded, word_indices


def word_logits(logits: torch.Tensor, word_indices: Sequence[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean logits (words, labels) of each word's tokens, and a mask (words,) of the words with a token.

    `logits` are (>= tokens, labels). `word_indices` are those of `encode_marked`, `length` is the number of words.
    """
    indices = torch.as_tensor(word_indices, dtype=torch.long)
    tokens = (indices != NO_WORD).nonzero()[:, 0]
    words = indices[tokens]
    sums = torch.zeros(length, logits.shape[-1], dtype=torch.float64).index_add_(0, words, logits[tokens].double())
    counts = torch.bincount(words, minlength=length)
    return sums / counts.clamp(min=1)[:, None], counts > 0


def knows_cues(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if a tokenizer has a cue marker."""
    return CUE_MARKER in tokenizer.get_added_vocab()
