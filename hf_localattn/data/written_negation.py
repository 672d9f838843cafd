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
from pathlib import Path

import yaml

from hf_localattn.data.negation_corpora import Cue, Sentence
from hf_localattn.data.rows import read_text
from hf_localattn.models.negation_finder import CUE_KINDS
from hf_localattn.models.negation_text import split_words

NEGATION, SPECULATION = CUE_KINDS

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
        ValueError: The file is no YAML, lacks `words` or `patterns`, or a pattern names an unknown vocabulary.
    """
    words, patterns = _read_patterns(path)
    generator = random.Random(0)
    seen: set[str] = set()
    for domain, pattern in patterns:
        for _ in range(SENTENCES_PER_PATTERN):
            marked = tidy(fill(pattern, words, generator))
            text, marks = read_marks(marked)
            if text in seen:
                continue
            seen.add(text)
            yield annotate(text, marks, f"written-{domain}", f"{domain}-{len(seen)}")


def _read_patterns(path: Path) -> tuple[Mapping[str, Sequence[str]], list[tuple[str, str]]]:
    """Return the vocabularies of a file, and its patterns with their domains."""
    try:
        content = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: is no YAML: {str(error).replace(chr(10), ' ')}. Correct the file.") from None
    if not isinstance(content, dict) or not {"words", "patterns"} <= content.keys():
        raise ValueError(f"{path}: needs `words` and `patterns`, as `sample:negation/written.yaml` has them.")
    patterns = [(domain, pattern) for domain, texts in content["patterns"].items() for pattern in texts]
    for domain, pattern in patterns:
        if not isinstance(pattern, str):
            raise ValueError(f"{path}: a pattern of {domain!r} is {pattern!r}; put it in quotation marks.")
        for match in _CHOICE.finditer(pattern):
            if match["name"] and match["name"].lower() not in content["words"]:
                raise ValueError(f"{path}: {pattern!r} names <{match['name']}>, which is not among the words: add it.")
    return content["words"], patterns


def fill(pattern: str, words: Mapping[str, Sequence[str]], generator: random.Random) -> str:
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
    """Return the text of a sentence with marks, and the marks of each cue by its kind and number."""
    text = ""
    marks: dict[tuple[str, str], Marks] = {}
    end = 0
    inside: set[int] = set()  # the open cue or scope, or a set that nobody reads
    for match in _MARK.finditer(marked):
        part = marked[end : match.start()]
        inside |= set(range(len(text), len(text) + len(part)))
        text += part
        end = match.end()
        inside = set()
        bracket = match[0][0]
        if bracket in "[{":
            kind = SPECULATION if match["speculation"] else NEGATION
            own = marks.setdefault((kind, match["number"] or "1"), Marks())
            inside = own.cue if bracket == "[" else own.scope
    return text + marked[end:], marks


def annotate(text: str, marks: Mapping[tuple[str, str], Marks], document_id: str, sentence_id: str) -> Sentence:
    """Return a sentence split into words, with its cues."""
    places = [range(start, end) for start, end in split_words(text)]
    tokens = [text[place.start : place.stop] for place in places]
    cues = []
    for (kind, _), own in marks.items():
        letters = {word: "".join(text[i] for i in place if i in own.cue) for word, place in enumerate(places)}
        words = [word for word, cue_text in letters.items() if cue_text]
        affixes = {word: letters[word] for word in words if letters[word] != tokens[word]}
        scope = [word for word, place in enumerate(places) if not own.scope.isdisjoint(place)]
        cues.append(Cue(kind, words, scope, affixes))
    return Sentence(document_id, sentence_id, tokens, cues)
