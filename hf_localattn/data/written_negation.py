"""Sentences with negation and speculation, written by patterns over vocabularies.

Corpora of stories and papers lack the constructions of clinical notes, news, reviews and talk ("denies", "was ruled
out", "no longer"), and words that look like negation ("not only", "no change in"). The file of patterns
`sample:negation/written.yaml` adds them, and is read wherever a corpus is. Its conventions:

* A scope has what does not hold, without the cue. In talk the subject is inside, as in *SEM 2012. In notes, reviews,
  news and papers it is outside, as in BioScope, except for the subject of a passive verb.
* Two negations that cancel each other are no cues ("does not deny"), nor are negations in questions and conditions.
* "No change in the effusion" negates the change, and "has not resolved" the resolution, not what they speak of.
* Speculation is marked in notes and papers only, as corpora of stories do not annotate it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from hf_localattn.data.negation_corpora import Cue, Sentence
from hf_localattn.data.rows import read_text
from hf_localattn.models.negation_labels import CUE_KINDS
from hf_localattn.models.negation_text import split_words

NEGATION, SPECULATION = CUE_KINDS

Vocabularies: TypeAlias = Mapping[str, Sequence[str]]

SENTENCES_PER_PATTERN = 12
"""Largest number of sentences made from a pattern. Patterns with few words make fewer, since none is repeated."""

_CHOICE = re.compile(r"<(?P<name>[A-Za-z0-9-]+)>|\((?P<texts>[^()]*\|[^()]*)\)")
_MARK = re.compile(r"[\[{](?P<speculation>\?)?(?:(?P<number>\d):)?|[\]}]")


@dataclass
class Marks:
    """Characters of a text that belong to a cue, and to its scope."""

    cue: set[int] = field(default_factory=set)
    scope: set[int] = field(default_factory=set)


def is_pattern_file(path: Path) -> bool:
    """Return True for the name of a file of patterns."""
    return path.suffix in (".yaml", ".yml")


def write_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file of patterns. They are the same in each call, and different from each other.

    Raises:
        ValueError: The file is no YAML with `words` and `patterns`, or one of its patterns cannot be read.
    """
    words, patterns = _read_patterns(path)
    generator = random.Random(0)
    seen: set[str] = set()
    for domain, pattern in patterns:
        for _ in range(SENTENCES_PER_PATTERN):
            marked = tidy(fill(pattern, words, generator))
            try:
                text, marks = read_marks(marked)
            except ValueError as error:
                raise ValueError(f"{path}: {pattern!r} {error}") from None
            if text not in seen:
                seen.add(text)
                yield annotate(text, marks, f"written-{domain}", f"{domain}-{len(seen)}")


def _read_patterns(path: Path) -> tuple[Vocabularies, list[tuple[str, str]]]:
    """Return the vocabularies of a file, and its patterns with their domains."""
    try:
        content = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: is no YAML: {' '.join(str(error).split())}. Correct the file.") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(name), dict) for name in ("words", "patterns")):
        raise ValueError(f"{path}: needs `words` and `patterns`, as `sample:negation/written.yaml` has them.")
    words = content["words"]
    patterns = content["patterns"]
    for table in (words, patterns):
        for name, texts in table.items():
            _check_texts(texts, f"{path}: {name!r}", words)
    _check_recursion(words, path)
    return words, [(domain, pattern) for domain, texts in patterns.items() for pattern in texts]


def _check_texts(texts: Any, place: str, words: Vocabularies) -> None:
    """Raise `ValueError` unless texts is a list of texts that name known vocabularies."""
    if not isinstance(texts, list) or not texts:
        raise ValueError(f"{place} is empty or no list: give a list of texts.")
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"{place} has {text!r}, which YAML does not read as a text: put it in quotation marks.")
        for name in _names(text):
            if name not in words:
                raise ValueError(f"{place}: {text!r} names <{name}>, which is not among the words: add it.")


def _check_recursion(words: Vocabularies, path: Path) -> None:
    """Raise `ValueError` if a vocabulary contains itself."""
    order = TopologicalSorter({name: _names(" ".join(texts)) for name, texts in words.items()})
    try:
        order.prepare()
    except CycleError as error:
        raise ValueError(f"{path}: the vocabulary <{error.args[1][0]}> contains itself: break the circle.") from None


def _names(text: str) -> list[str]:
    """Return the vocabularies that a text names."""
    return [match["name"].lower() for match in _CHOICE.finditer(text) if match["name"]]


def fill(pattern: str, words: Vocabularies, generator: random.Random) -> str:
    """Replace the vocabularies and alternatives of a pattern by texts that are drawn."""

    def draw(match: re.Match[str]) -> str:
        if match["texts"] is not None:
            return generator.choice(match["texts"].split("|"))
        name = match["name"]
        text = fill(generator.choice(words[name.lower()]), words, generator)
        return text[:1].upper() + text[1:] if name[0].isupper() else text

    while _CHOICE.search(pattern):
        pattern = _CHOICE.sub(draw, pattern)
    return pattern


def tidy(text: str) -> str:
    """Remove blanks that empty texts have left, and write "an" and the first letter as they should be."""
    text = re.sub(r" {2,}| (?=[]},.?;])", lambda blanks: " " if len(blanks[0]) > 1 else "", text)
    text = re.sub(r"\b([Aa]) (?=[{\[]?[aeiouAEIOU])", r"\1n ", text)
    return re.sub(r"^([\[{?\d:]*)([a-z])(?!/)", lambda first: first[1] + first[2].upper(), text)


def read_marks(marked: str) -> tuple[str, dict[tuple[str, str], Marks]]:
    """Return the text of a sentence with marks, and the marks of each cue by its kind and number.

    Raises:
        ValueError: A bracket has no partner, or a scope no cue.
    """
    text = ""
    marks: dict[tuple[str, str], Marks] = {}
    end = 0
    opened: set[int] | None = None
    for match in _MARK.finditer(marked):
        part = marked[end : match.start()]
        end = match.end()
        opens = match[0][0] in "[{"
        if opens == (opened is not None):
            raise ValueError("has a bracket without its partner, or brackets in brackets: correct it.")
        if opened is not None:
            opened |= set(range(len(text), len(text) + len(part)))
        text += part
        opened = None
        if opens:
            kind = SPECULATION if match["speculation"] else NEGATION
            cue = marks.setdefault((kind, match["number"] or "1"), Marks())
            opened = cue.cue if match[0][0] == "[" else cue.scope
    if opened is not None:
        raise ValueError("has a bracket without its partner: correct it.")
    if not all(cue.cue for cue in marks.values()):
        raise ValueError("has a scope without a cue: mark the cue with [ ], and give both the same number.")
    return text + marked[end:], marks


def annotate(text: str, marks: Mapping[tuple[str, str], Marks], document_id: str, sentence_id: str) -> Sentence:
    """Return a sentence split into words, with its cues."""
    places = [range(start, end) for start, end in split_words(text)]
    tokens = [text[place.start : place.stop] for place in places]
    cues = []
    for (kind, _), marked in marks.items():
        letters = ["".join(text[index] for index in place if index in marked.cue) for place in places]
        words = [word for word, cue_text in enumerate(letters) if cue_text]
        affixes = {word: letters[word] for word in words if letters[word] != tokens[word]}
        scope = [word for word, place in enumerate(places) if not marked.scope.isdisjoint(place)]
        cues.append(Cue(kind, words, scope, affixes))
    return Sentence(document_id, sentence_id, tokens, cues)
