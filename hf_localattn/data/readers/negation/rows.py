"""Rows that all corpora of negation are read into: one for each cue of each sentence."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset, Features, List, Value

logger = logging.getLogger(__name__)

NEGATION_FEATURES = Features(
    {
        "id": Value("string"),
        "document_id": Value("string"),
        "sentence_id": Value("string"),
        "tokens": List(Value("string")),
        "cue": List(Value("int8")),
        "cue_type": Value("string"),
        "scope": List(Value("int8")),
    }
)
"""`tokens` are words; `cue` and `scope` have a 0 or 1 for each, and `scope` nothing where none is known.

`id` is unique in a file or folder; rows of one sentence share their `sentence_id`.
"""

CUE_TYPES = ("affix", "single", "multi")
"""A part of a word (`in` of `infrequent`), one word, several words."""

CUE_KINDS = ("negation", "speculation")
CUE_IN_SCOPE = ("never", "corpus")
UNMATCHED_SCOPES = ("error", "skip")


@dataclass(frozen=True)
class Options:
    """Options of every reader; an unknown value is a ValueError before any file is opened.

    Args:
        cues: the kind that gets rows, one of `CUE_KINDS`.
        cue_in_scope: "never": a row's own cue words are not in its scope, but for those of which the cue is only an
            affix; "corpus": as annotated.
        unmatched_scopes: "error": a scope whose cue is missing is one; "skip": it is left out, with a warning.
    """

    cues: str = "negation"
    cue_in_scope: str = "never"
    unmatched_scopes: str = "error"

    def __post_init__(self) -> None:
        for name, choices in (
            ("cues", CUE_KINDS),
            ("cue_in_scope", CUE_IN_SCOPE),
            ("unmatched_scopes", UNMATCHED_SCOPES),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be {' or '.join(choices)}; got {getattr(self, name)!r}.")


@dataclass(frozen=True)
class Cue:
    """A cue by the places of its words in the sentence, counted from 0.

    Args:
        kind: one of `CUE_KINDS`.
        words: where it is; never empty.
        scope: what it affects, as annotated; None if that is not known.
        affixes: those of `words` of which the cue is only a part.
    """

    kind: str
    words: Collection[int]
    scope: Collection[int] | None
    affixes: Collection[int] = ()

    @property
    def type(self) -> str:
        """One of `CUE_TYPES`."""
        if len(self.words) > 1:
            return "multi"
        return "affix" if self.affixes else "single"

    def labels(self, length: int, cue_in_scope: str) -> dict[str, Any]:
        """Return `cue`, `cue_type` and `scope` for a sentence of so many words."""
        scope = self.scope
        if scope is not None and cue_in_scope == "never":
            scope = set(scope) - (set(self.words) - set(self.affixes))
        return {
            "cue": [int(place in self.words) for place in range(length)],
            "cue_type": self.type,
            "scope": [] if scope is None else [int(place in scope) for place in range(length)],
        }


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence and its cues, of every kind."""

    document_id: str
    sentence_id: str
    tokens: list[str]
    cues: list[Cue]


@dataclass
class UnmatchedScopes:
    """Scopes whose cue is missing: refused or counted, as `Options` say."""

    policy: str
    found: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Take note of a scope, described with its place, or raise ValueError."""
        if self.policy == "error":
            raise ValueError(
                f"{what}: a scope needs its cue; mend the file, or leave such scopes out with unmatched_scopes='skip'"
                " (scripts: --unmatched_scopes skip)."
            )
        self.found.append(what)

    def warn(self) -> None:
        """Say how many were left out."""
        if self.found:
            logger.warning("Scopes without a cue, left out: %d; the first one: %s.", len(self.found), self.found[0])


class UniqueNames:
    """Makes names unique by a number behind those that were there before."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, name: str) -> str:
        unique, number = name, 1
        while unique in self._seen:
            number += 1
            unique = f"{name}~{number}"
        self._seen.add(unique)
        return unique


def build_rows(read: Callable[[UnmatchedScopes], Iterable[Sentence]], source: str, options: Options) -> Dataset:
    """Return a row for each cue of the kind that is asked for, in the order of the corpus.

    Args:
        read: gives the sentences, and takes note of scopes without a cue.
        source: says in errors what is read.
        options: what is asked for.

    Raises:
        ValueError: there is no sentence, or none has such a cue; names `source` and the kinds that are there.
    """
    rows, kinds, number_of_sentences = [], Counter[str](), 0
    unmatched = UnmatchedScopes(options.unmatched_scopes)
    for sentence in read(unmatched):
        number_of_sentences += 1
        kinds.update(cue.kind for cue in sentence.cues)
        for number, cue in enumerate(sentence.cues, start=1):
            if cue.kind == options.cues:
                rows.append(
                    {
                        # counted over cues of all kinds, so that the name does not depend on what is asked for
                        "id": f"{sentence.sentence_id}/{number}",
                        "document_id": sentence.document_id,
                        "sentence_id": sentence.sentence_id,
                        "tokens": sentence.tokens,
                        **cue.labels(len(sentence.tokens), options.cue_in_scope),
                    }
                )
    if not number_of_sentences:
        raise ValueError(f"{source}: holds no sentences.")
    if not rows:
        others = ", ".join(f"{count} of {kind}" for kind, count in kinds.items()) or "none of any kind"
        raise ValueError(
            f"{source}: has no cues of {options.cues} in {number_of_sentences} sentences; there are {others}."
        )
    unmatched.warn()
    return Dataset.from_list(rows, features=NEGATION_FEATURES)


def describe_cues(rows: Dataset) -> str:
    """Count cues, sentences that have them, and empty scopes, for a line of a log."""
    types = Counter(rows["cue_type"])
    counted = ", ".join(f"{types[name]} {name}" for name in CUE_TYPES if types[name])
    empty = sum(bool(scope) and not any(scope) for scope in rows["scope"])
    return f"{len(rows)} cues ({counted}) in {len(set(rows['sentence_id']))} sentences, {empty} with an empty scope"
