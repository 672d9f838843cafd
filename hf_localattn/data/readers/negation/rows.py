"""The row format shared by all negation corpora: one row per cue of a sentence."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
        "cue_kind": Value("string"),
        "cue_text": List(Value("string")),
        "scope": List(Value("int8")),
        "scope_text": List(Value("string")),
        "lemma": List(Value("string")),
        "pos": List(Value("string")),
        "parse": List(Value("string")),
    }
)
"""`tokens` are words; `cue` and `scope` have a 0 or 1 per word. `scope` is empty if unknown.

`cue_text` and `scope_text` have the characters of each word that belong to cue and scope: `in` and `frequent` of
`infrequent`, "" for words outside. `lemma`, `pos` and `parse` have a value per word, or are empty. `id` is unique in a
file or folder; rows of the same sentence have the same `sentence_id`.
"""

ANNOTATIONS = ("lemma", "pos", "parse")
"""Columns with an annotation per word, which are empty if a corpus has none."""

CUE_TYPES = ("affix", "single", "multi")
"""Types of cues: part of a word (`in` of `infrequent`), one word, several words."""

NO_CUE = "none"
"""`cue_type` of the row of a sentence without a cue. Such rows exist only if they are requested."""

CUE_KINDS = ("negation", "speculation")
ASKED_CUES = (*CUE_KINDS, "both")
CUE_IN_SCOPE = ("never", "corpus")
UNMATCHED_SCOPES = ("error", "skip")


@dataclass(frozen=True)
class Options:
    """Options of all readers. Unknown values raise `ValueError` before a file is opened.

    Args:
        cues: kind of cue that gets rows, one of `ASKED_CUES`, *optional*, defaults to `"negation"`.
        cue_in_scope: `"never"` removes the words of the cue from its scope, unless the cue is only an affix of the
            word; `"corpus"` keeps the annotated scope. *optional*, defaults to `"never"`.
        unmatched_scopes: `"error"` refuses a scope without a cue; `"skip"` drops such scopes with a warning.
            *optional*, defaults to `"error"`.
        all_sentences: add a row without a cue for each sentence that has no cue of this kind. *optional*, defaults to
            False.
    """

    cues: str = "negation"
    cue_in_scope: str = "never"
    unmatched_scopes: str = "error"
    all_sentences: bool = False

    def __post_init__(self) -> None:
        for name, choices in (
            ("cues", ASKED_CUES),
            ("cue_in_scope", CUE_IN_SCOPE),
            ("unmatched_scopes", UNMATCHED_SCOPES),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be {' or '.join(choices)}; got {getattr(self, name)!r}.")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of cues that get rows."""
        return CUE_KINDS if self.cues == "both" else (self.cues,)


@dataclass(frozen=True)
class Cue:
    """A cue and its scope, as indices of words in the sentence, counted from 0.

    Args:
        kind: one of `CUE_KINDS`.
        words: words of the cue; never empty.
        scope: words of the scope as annotated; None if unknown.
        affixes: the characters of the cue in each word that contains it as an affix, *optional*.
        scope_texts: the annotated characters of the scope in its words, *optional*. Defaults to `scope_characters`.
    """

    kind: str
    words: Collection[int]
    scope: Collection[int] | None
    affixes: Mapping[int, str] = field(default_factory=dict)
    scope_texts: Mapping[int, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """One of `CUE_TYPES`."""
        if len(self.words) > 1:
            return "multi"
        return "affix" if self.affixes else "single"

    def columns(self, tokens: Sequence[str], cue_in_scope: str) -> dict[str, Any]:
        """Return the columns of cue and scope for the words of a sentence."""
        scope = self.scope
        if scope is not None and cue_in_scope == "never":
            scope = set(scope) - (set(self.words) - set(self.affixes))
        cue_text = [self.affixes.get(place, word) if place in self.words else "" for place, word in enumerate(tokens)]
        marks = [] if scope is None else [int(place in scope) for place in range(len(tokens))]
        scope_text = scope_characters(tokens, cue_text, marks)
        return {
            "cue": [int(place in self.words) for place in range(len(tokens))],
            "cue_type": self.type,
            "cue_kind": self.kind,
            "cue_text": cue_text,
            "scope": marks,
            "scope_text": [text and (self.scope_texts.get(place) or text) for place, text in enumerate(scope_text)],
        }


def scope_characters(tokens: Sequence[str], cue_text: Sequence[str], scope: Sequence[int]) -> list[str]:
    """Return the characters of each word that are in scope: the whole word, or the part that is not the cue's affix.

    An affix inside its word has the scope before it: `breath` of `breathlessness` for the cue `less`, as in *SEM 2012.

    Args:
        tokens: words of the sentence.
        cue_text: characters of the cue in each word, "" for words outside.
        scope: 1 for each word in scope, 0 for the others; empty if unknown.

    Returns:
        A text per word, "" for words outside the scope; empty if the scope is unknown.

    Raises:
        ValueError: the lists have different lengths.
    """
    texts = []
    for word, affix, inside in zip(tokens, cue_text, scope, strict=True) if scope else ():
        before, _, after = word.partition(affix) if affix else ("", "", word)
        texts.append((before or after or word) if inside else "")
    return texts


def no_cue_columns(length: int, *, known: bool = True) -> dict[str, Any]:
    """Return the columns of cue and scope for a sentence of `length` words without a cue."""
    return {
        "cue": [0] * length,
        "cue_type": NO_CUE,
        "cue_kind": None,
        "cue_text": [""] * length,
        "scope": [0] * length if known else [],
        "scope_text": [""] * length if known else [],
    }


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence and its cues of all kinds."""

    document_id: str
    sentence_id: str
    tokens: list[str]
    cues: list[Cue]
    annotations: Mapping[str, list[str]] = field(default_factory=dict)
    """The columns `lemma`, `pos` and `parse`, as far as the corpus has them."""

    def row(self, number: int, columns: dict[str, Any]) -> dict[str, Any]:
        """Return a row. `number` counts cues of all kinds from 1, so that the id does not depend on options."""
        return {
            "id": f"{self.sentence_id}/{number}",
            "document_id": self.document_id,
            "sentence_id": self.sentence_id,
            "tokens": self.tokens,
            **columns,
            **{name: self.annotations.get(name, []) for name in ANNOTATIONS},
        }


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

    With `all_sentences`, sentences without such a cue have one row, too.

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
        own = [
            sentence.row(number, cue.columns(sentence.tokens, options.cue_in_scope))
            for number, cue in enumerate(sentence.cues, start=1)
            if cue.kind in options.kinds
        ]
        if options.all_sentences and not own:
            own = [sentence.row(0, no_cue_columns(len(sentence.tokens)))]
        rows += own
    if not number_of_sentences:
        raise ValueError(f"{source}: holds no sentences.")
    if not rows:
        others = ", ".join(f"{count} of {kind}" for kind, count in kinds.items()) or "none of any kind"
        kinds_asked = " or ".join(options.kinds)
        raise ValueError(
            f"{source}: has no cues of {kinds_asked} in {number_of_sentences} sentences; there are {others}."
        )
    unmatched.warn()
    return Dataset.from_list(rows, features=NEGATION_FEATURES)


def describe_cues(rows: Dataset) -> str:
    """Summarize rows for the log: the numbers of cues by type, of sentences and of empty scopes."""
    types = Counter(rows["cue_type"])
    counted = ", ".join(f"{types[name]} {name}" for name in CUE_TYPES if types[name])
    scopes = [scope for scope, name in zip(rows["scope"], rows["cue_type"], strict=True) if name != NO_CUE]
    empty = sum(bool(scope) and not any(scope) for scope in scopes)
    return f"{len(scopes)} cues ({counted}) in {len(set(rows['sentence_id']))} sentences, {empty} with an empty scope"
