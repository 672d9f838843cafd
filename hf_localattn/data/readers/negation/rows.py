"""The row format shared by all negation corpora: one row per cue of a sentence."""

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
"""`tokens` are words; `cue` and `scope` have a 0 or 1 per word. `scope` is empty if unknown.

`id` is unique in a file or folder; rows of the same sentence have the same `sentence_id`.
"""

CUE_TYPES = ("affix", "single", "multi")
"""Types of cues: part of a word (`in` of `infrequent`), one word, several words."""

CUE_KINDS = ("negation", "speculation")
CUE_IN_SCOPE = ("never", "corpus")
UNMATCHED_SCOPES = ("error", "skip")


@dataclass(frozen=True)
class Options:
    """Options of all readers. Unknown values raise `ValueError` before a file is opened.

    Args:
        cues: kind of cue that gets rows, one of `CUE_KINDS`, *optional*, defaults to `"negation"`.
        cue_in_scope: `"never"` removes the words of the cue from its scope, unless the cue is only an affix of the
            word; `"corpus"` keeps the annotated scope. *optional*, defaults to `"never"`.
        unmatched_scopes: `"error"` refuses a scope without a cue; `"skip"` drops such scopes with a warning.
            *optional*, defaults to `"error"`.
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
    """A cue and its scope, as indices of words in the sentence, counted from 0.

    Args:
        kind: one of `CUE_KINDS`.
        words: words of the cue; never empty.
        scope: words of the scope as annotated; None if unknown.
        affixes: the subset of `words` that contain the cue as an affix.
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
        """Return the columns `cue`, `cue_type` and `scope` for a sentence of `length` words."""
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
    """The words of a sentence and its cues of all kinds."""

    document_id: str
    sentence_id: str
    tokens: list[str]
    cues: list[Cue]


@dataclass
class UnmatchedScopes:
    """Scopes without a cue. They raise an error, or are counted and skipped (see `Options`)."""

    policy: str
    found: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Count a scope without a cue, or raise `ValueError` with its place, depending on the policy."""
        if self.policy == "error":
            raise ValueError(
                f"{what}: a scope needs a cue; correct the file, or leave such scopes out with unmatched_scopes='skip'"
                " (scripts: --unmatched_scopes skip)."
            )
        self.found.append(what)

    def warn(self) -> None:
        """Log how many scopes were skipped."""
        if self.found:
            logger.warning("Scopes without a cue, left out: %d; the first one: %s.", len(self.found), self.found[0])


class UniqueNames:
    """Makes names unique by appending a number to repeated names."""

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
    """Build one row for each cue of the requested kind, in the order of the corpus.

    Args:
        read: yields the sentences, and adds scopes without a cue to its argument.
        source: path of the corpus, for error messages.
        options: options of the reader.

    Raises:
        ValueError: there is no sentence, or no cue of this kind. The message has `source` and the existing kinds.
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
                        # counts cues of all kinds, so that the id does not depend on the options
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
    """Summarize rows for the log: the numbers of cues by type, of sentences and of empty scopes."""
    types = Counter(rows["cue_type"])
    counted = ", ".join(f"{types[name]} {name}" for name in CUE_TYPES if types[name])
    empty = sum(bool(scope) and not any(scope) for scope in rows["scope"])
    return f"{len(rows)} cues ({counted}) in {len(set(rows['sentence_id']))} sentences, {empty} with an empty scope"
