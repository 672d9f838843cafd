"""Sentences with all their negations, rebuilt from rows, and their text in the columns of *SEM 2012."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from datasets import Dataset

from hf_localattn.data.negation import ANNOTATIONS, NO_CUE, scope_characters
from hf_localattn.data.negation_corpora import NO_NEGATION, NOTHING
from hf_localattn.data.rows import Record
from hf_localattn.models.pipeline_negation import affix_offsets

_SPACES = str.maketrans(dict.fromkeys("\t\r\n", " "))


class Negation(TypedDict):
    """A cue and its scope: the characters of each word of the sentence that belong to them, "" for words outside."""

    cue_text: list[str]
    scope_text: list[str]


@dataclass(frozen=True)
class NegatedSentence:
    """A sentence and its negations.

    Attributes:
        document_id: id of the document, such as a chapter.
        sentence_id: id of the sentence.
        tokens: words.
        lemma: lemma of each word; empty if unknown.
        pos: part-of-speech tag of each word; empty if unknown.
        parse: parse column of each word, as in the file; empty if unknown.
        negations: negations in the order of the rows.
    """

    document_id: str
    sentence_id: str
    tokens: list[str]
    lemma: list[str]
    pos: list[str]
    parse: list[str]
    negations: list[Negation] = field(default_factory=list)


def rebuild_sentences(rows: Dataset | Iterable[Record]) -> list[NegatedSentence]:
    """Put the rows of each sentence together, in the order of their first rows.

    Args:
        rows: rows of `NEGATION_FEATURES`. A row without a cue adds a sentence, but no negation.
    """
    sentences: dict[Any, NegatedSentence] = {}
    for row in rows:
        names = ("document_id", "sentence_id", "tokens", *ANNOTATIONS)
        key = (row["document_id"], row["sentence_id"], *row["tokens"])
        sentence = sentences.setdefault(key, NegatedSentence(**{name: row[name] for name in names}))
        if row["cue_type"] != NO_CUE:
            sentence.negations.append(Negation(cue_text=row["cue_text"], scope_text=row["scope_text"]))
    return list(sentences.values())


def with_scopes(rows: Dataset, scopes: Sequence[Sequence[int]]) -> list[Record]:
    """Return rows with other scopes, such as predicted ones.

    Args:
        rows: rows of `NEGATION_FEATURES`.
        scopes: for each row, 1 for each word in scope, and 0 for the others.
    """
    changed = []
    for row, scope in zip(rows, scopes, strict=True):
        texts = scope_characters(row["tokens"], row["cue_text"], scope)
        changed.append({**row, "scope": list(scope), "scope_text": texts})
    return changed


def make_negation(
    tokens: Sequence[str], words: Collection[int], scope: Sequence[int], *, affix: bool = False
) -> Negation:
    """Return a predicted negation.

    Args:
        tokens: words of the sentence.
        words: indices of the words of the cue.
        scope: 1 for each word in scope, and 0 for the others.
        affix: the cue is an affix of its word (`affix_offsets`). *optional*, defaults to False.
    """
    cue = [""] * len(tokens)
    for place in words:
        start, end = affix_offsets(tokens[place]) if affix else (0, len(tokens[place]))
        cue[place] = tokens[place][start:end]
    return Negation(cue_text=cue, scope_text=scope_characters(tokens, cue, scope))


def format_starsem(sentences: Iterable[NegatedSentence]) -> str:
    """Return the text of sentences in the columns of *SEM 2012, which `load_negation` and the task's program read.

    The columns are chapter, sentence number, token number, word, lemma, part of speech and parse, then `***`, or three
    for each negation: cue, scope and event. Events and missing annotations are `_`. Tabs and line breaks in words
    become spaces. A blank line follows each sentence.
    """
    text = []
    for sentence in sentences:
        number = sentence.sentence_id.removeprefix(f"{sentence.document_id}/")
        for place, word in enumerate(sentence.tokens):
            annotations = (values[place] if (values := getattr(sentence, name)) else NOTHING for name in ANNOTATIONS)
            negations = [
                cell
                for negation in sentence.negations
                for cell in (negation["cue_text"][place], negation["scope_text"][place], "")
            ]
            cells = [sentence.document_id, number, str(place), word, *annotations, *(negations or [NO_NEGATION])]
            text.append("\t".join(cell.translate(_SPACES) or NOTHING for cell in cells))
        text.append("")
    return "".join(f"{line}\n" for line in text)
