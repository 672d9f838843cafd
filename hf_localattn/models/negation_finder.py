"""Cues of negation and their scopes in texts or sentences of words, by a model that labels words.

A sentence without cue markers asks for its cues: each word has `O` or the label of a cue, such as `negation:single`. A
sentence with cue markers asks for the scope of the marked cue: each word has `O` or `SCOPE`.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .cue_markers import ANY_MARKER, CUE_MARKER
from .negation_answers import Answer
from .negation_conventions import CLAUSE_MARKS, clause_before, is_cue, limit_scope, whole_cue
from .negation_labels import INSIDE, SCOPE_LABELS, FoundCue, WordLabeler, group_cues
from .negation_lines import split_notes
from .negation_reading import Reading
from .negation_text import MINUS, Offsets, affix_offsets, join_over_blanks, read_words, split_sentences

SENTENCES_AT_A_TIME = 1024
"""Number of sentences that are sorted by length and read together."""

SCOPES_AT_A_TIME = 4096
"""Number of cues whose sentences are read together."""

# The white space after a marker belongs to it. Several markers in a row mark one word.
_MARKER = re.compile(rf"(?:(?:{ANY_MARKER})\s*)+")


@dataclass(frozen=True, slots=True)
class Finding:
    """A cue with its scope. Scores are mean probabilities of the words' labels."""

    cue: FoundCue
    score: float
    scope: list[bool]  # True for each word in scope
    scope_score: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence of a text, or a part of a sentence that is too long for the model."""

    words: list[str]
    offsets: list[Offsets]
    sentence: Offsets  # of the whole sentence
    cue: FoundCue | None = None  # the cue that the text marks; None if the cues are to be found


class NegationFinder:
    """Finds cues and scopes in texts, or in sentences that are split into words.

    Args:
        labeler: From words to labels: a model of PyTorch (`ModelLabeler`), or anything else that has its methods.
    """

    def __init__(self, labeler: WordLabeler):
        self.labeler = labeler
        self.kinds = labeler.kinds

    def __call__(
        self,
        texts: Sequence[str],
        reading: Reading,
        sentences: Sequence[Sequence[Offsets]] | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Return the cues of each text, in its order, as `NegationPipeline` describes them.

        Args:
            texts: Texts. In those with cue markers only the marked cues are searched for their scopes.
            reading: How they are read.
            sentences (*optional*): The sentences of each text, which lines of notes divide further. By default they
                are found by rules.
        """
        parts = (
            (index, part)
            for index, text in enumerate(texts)
            for part in self._read(text, reading, None if sentences is None else sentences[index])
        )
        results: list[list[dict[str, Any]]] = [[] for _ in texts]
        while some := list(islice(parts, SENTENCES_AT_A_TIME)):  # the words of a long text are never all in memory
            pieces = [part for _, part in some if isinstance(part, Piece)]
            findings = iter(self.find([piece.words for piece in pieces], reading, [piece.cue for piece in pieces]))
            for index, part in some:
                if isinstance(part, Piece):
                    results[index] += [describe(texts[index], part, finding) for finding in next(findings)]
                elif part.kind is not None:
                    results[index].append(describe_answer(texts[index], part))
        return results

    def _read(self, text: str, reading: Reading, sentences: Sequence[Offsets] | None) -> Iterator[Piece | Answer]:
        """Yield the sentences of a text in pieces that the model can take; those with a marker, if it has any."""
        text = MINUS.sub("-", text)
        if reading.reads_lines and not re.search(ANY_MARKER, text):
            ends = None if sentences is None else [end for _, end in sentences]
            for part in split_notes(text, ends):
                if isinstance(part, Answer):
                    yield part
                else:
                    yield from self._cut(text, part, [], reading.max_words)
            return
        markers = list(_MARKER.finditer(text))
        ends = [marker.end() for marker in markers]
        blank = re.sub(ANY_MARKER, lambda marker: " " * len(marker[0]), text)  # of the same length
        if sentences is None:
            sentences = split_sentences(blank, bool(reading.split_lines))
        elif reading.split_lines:
            sentences = [
                (start + begin, start + stop)
                for start, end in sentences
                for begin, stop in split_sentences(text[start:end], lines=True)
            ]
        for start, end in sentences:
            inside = markers[bisect_left(ends, start) : bisect_left(ends, end)]
            if inside or not markers:
                first = min([start, *(marker.start() for marker in inside)])
                yield from self._cut(blank, (first, end), inside, reading.max_words)

    def _cut(self, text: str, sentence: Offsets, markers: Sequence[re.Match[str]], most: int) -> Iterator[Piece]:
        start, end = sentence
        words, places = read_words(text[start:end])
        offsets = [(start + begin, start + stop) for begin, stop in places]
        marked_begins = {marker.end() for marker in markers}
        cue = [index for index, (begin, _) in enumerate(offsets) if begin in marked_begins]
        named = re.search("affix|single|multi", "".join(marker[0] for marker in markers))
        for piece in self.labeler.pieces(words, most):
            part = slice(piece.start, piece.stop)
            marked = tuple(index - piece.start for index in cue if index in piece)
            cue_type = named[0] if named else "multi" if len(marked) > 1 else "single"
            if marked:
                yield Piece(words[part], offsets[part], sentence, FoundCue(self.kinds[0], cue_type, marked))
            elif not markers:
                yield Piece(words[part], offsets[part], sentence)

    def find(
        self,
        sentences: Sequence[Sequence[str]],
        reading: Reading,
        marked: Sequence[FoundCue | None] | None = None,
    ) -> list[list[Finding]]:
        """Return the cues of each sentence and their scopes.

        Args:
            sentences: Words of each sentence.
            reading: What counts as a cue and as its scope.
            marked (*optional*): The cue of each sentence; None for those whose cues are to be found, by default all.
        """
        marked = [None] * len(sentences) if marked is None else marked
        findings: list[list[Finding]] = []
        for start in range(0, len(sentences), SENTENCES_AT_A_TIME):
            some = slice(start, start + SENTENCES_AT_A_TIME)
            findings += self._find(sentences[some], marked[some], reading)
        return findings

    def _find(
        self, sentences: Sequence[Sequence[str]], marked: Sequence[FoundCue | None], reading: Reading
    ) -> list[list[Finding]]:
        unmarked = [words for words, cue in zip(sentences, marked, strict=True) if cue is None]
        predicted = iter(self.find_cues(unmarked))
        queries: list[tuple[int, FoundCue, FoundCue, float]] = []  # sentence, predicted cue, whole cue, score
        for index, (words, cue) in enumerate(zip(sentences, marked, strict=True)):
            if cue is not None:
                queries.append((index, cue, cue, 1.0))
                continue
            for found_cue, score in reading.apply_terms(words, next(predicted)):
                whole = FoundCue(
                    found_cue.kind, *whole_cue(reading.convention, found_cue.type, words, found_cue.words)
                )
                is_convention = is_cue(reading.convention, whole.type, words[whole.words[0]])
                if is_convention and score >= reading.threshold:
                    queries.append((index, found_cue, whole, score))
        words_to_read = sum(len(sentences[index]) for index, *_ in queries)
        if reading.max_scope_words is not None and words_to_read > reading.max_scope_words:
            raise ValueError(
                f"The text has {words_to_read} words to read for its scopes, more than {reading.max_scope_words}: give"
                " a part of it, or set `max_scope_words`."
            )
        findings: list[list[Finding]] = [[] for _ in sentences]
        for start in range(0, len(queries), SCOPES_AT_A_TIME):
            some = queries[start : start + SCOPES_AT_A_TIME]
            scopes = self.find_scopes([sentences[index] for index, *_ in some], [cue for _, cue, *_ in some])
            for (index, cue, whole, score), (scope, scope_score) in zip(some, scopes, strict=True):
                limited = limit_scope(reading.convention, sentences[index], cue.words, scope)
                if whole.type != "affix":
                    limited = [inside and word not in whole.words for word, inside in enumerate(limited)]
                elif reading.convention == "notes":  # "asymptomatic gallstones" are there
                    limited = [word in whole.words for word in range(len(limited))]
                if cue.is_term and not any(limited):
                    limited = clause_beside(sentences[index], cue.words)
                findings[index].append(Finding(whole, score, limited, scope_score))
        return findings

    def find_cues(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[FoundCue, float]]]:
        """Return the cues of each sentence, each with its score."""
        if len(self.labeler.cue_names) < 2 and any(sentences):
            raise ValueError(f"The model finds no cues: mark the cue in the text with {CUE_MARKER}.")
        unmarked = [[0] * len(words) for words in sentences]
        labeled = self.labeler.label(self.labeler.cue_names, sentences, unmarked, [None] * len(sentences))
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
        for words in self.labeler.label(SCOPE_LABELS, sentences, marked, [cue.type for cue in cues]):
            scope = [label == INSIDE for label in words.labels]
            scopes.append((scope, words.score(range(len(scope)))))
        return scopes


def clause_beside(words: Sequence[str], cue: Sequence[int]) -> list[bool]:
    """Return the scope of a term for which the model has none: the words behind it up to a mark, or those before."""
    after = range(cue[-1] + 1, len(words))
    behind = range(after.start, next((index for index in after if words[index] in CLAUSE_MARKS), after.stop))
    scope = behind or clause_before(words, cue[0])
    return [index in scope for index in range(len(words))]


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


def describe_answer(text: str, answer: Answer) -> dict[str, Any]:
    """Return findings with a known answer as `describe` does."""
    start, end = answer.sentence
    return {
        "cue": [_span(text, *answer.cue)],
        "kind": answer.kind,
        "type": "single" if len(text[slice(*answer.cue)].split()) == 1 else "multi",
        "score": 1.0,
        "scope": [_span(text, *finding) for finding in answer.findings],
        "scope_score": 1.0,
        "sentence": {"start": start, "end": end},
    }


def _span(text: str, start: int, end: int) -> dict[str, Any]:
    return {"text": text[start:end], "start": start, "end": end}
