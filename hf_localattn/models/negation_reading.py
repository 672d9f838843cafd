"""Settings of negation: how texts are read, and what counts as a cue."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from .negation_conventions import check_convention
from .negation_labels import CUE_KINDS, FoundCue
from .negation_text import read_words

IGNORE = "ignore"
"""Key of terms that are no cues."""

TERMS = (*CUE_KINDS, IGNORE)
"""Keys of a user's terms."""


class Terms:
    """A user's terms, found in the words of a sentence.

    Args:
        terms: Lists of phrases by `TERMS`, as in `Reading`.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]]):
        self.kinds = {_words(phrase): kind for kind, phrases in terms.items() for phrase in phrases}
        self.lengths = sorted({len(words) for words in self.kinds}, reverse=True)

    def apply(self, words: Sequence[str], cues: Sequence[tuple[FoundCue, float]]) -> list[tuple[FoundCue, float]]:
        """Return the cues of a sentence without those in ignored terms, and with those that are terms, at score 1."""
        if not self.lengths:
            return list(cues)
        ignored: set[int] = set()
        added: list[tuple[FoundCue, float]] = []
        taken: set[int] = set()
        plain = [word.casefold() for word in words]
        place = 0
        while place < len(plain):
            for length in self.lengths:  # the longest term at a place
                kind = self.kinds.get(tuple(plain[place : place + length]))
                if kind is not None and place + length <= len(plain):
                    inside = range(place, place + length)
                    if kind == IGNORE:
                        ignored.update(inside)
                    else:
                        added.append((FoundCue(kind, "multi" if length > 1 else "single", tuple(inside), True), 1.0))
                        taken.update(inside)
                    place += length - 1
                    break
            place += 1
        kept = [item for item in cues if not ignored.issuperset(item[0].words) and taken.isdisjoint(item[0].words)]
        return sorted([*kept, *added], key=lambda item: item[0].words)


_CLAUSES = [f"{clause} that {who}" for clause in ("not true", "not the case") for who in ("he", "she", "the patient")]

NOTE_TERMS = {
    "negation": ("Ø", "∅", "pertinent negatives", "non reactive", "non-reactive"),
    "speculation": (
        *("query", "ddx", "differential includes", "differential diagnosis"),
        *("unclear whether", "unclear if", "not ruled out"),
        *(f"{degree} {noun}" for degree in ("low", "high") for noun in ("suspicion", "clinical suspicion")),
    ),
    IGNORE: (
        "o",  # a bullet
        *(f"{marker}-negative" for marker in ("triple", "HER2", "gram", "Rh", "coagulase", "node")),
        *(f"{clause} {verb}" for clause in _CLAUSES for verb in ("has no", "had no", "denies", "denied")),
    ),
}
"""Terms of notes. The last are names, and two negations that cancel each other."""


@dataclass(frozen=True)
class Reading:
    """Settings of the reading of texts: their sentences, and what counts as a cue.

    Args:
        convention (str, *optional*, defaults to "stories"): What counts as a cue and as its scope. "stories" is all
            that the model predicts. "papers" and "reviews" have no affixes as cues, and the subject of an active
            clause is outside. "notes" is the same, with the affixes of words such as `afebrile`, and its lines are
            read as those of clinical notes.
        split_lines (bool, *optional*): If True, a sentence ends at each line break; if False, at none but empty
            lines. By default a line break ends a sentence of notes unless the line is wrapped, and none elsewhere.
        terms (dict, *optional*): A user's terms, which need no training: lists of words or phrases by "negation" or
            "speculation" (they are cues) and "ignore" (no cue is in them). Case does not matter. They win over the
            few terms that "notes" brings, such as `Ø` and `ddx`.
        threshold (float, *optional*, defaults to 0): Cues with a lower score are left out.
        max_characters (int, *optional*, defaults to 1,000,000): Longest text; None for any. Longer ones are refused.
        max_words (int, *optional*, defaults to 160): Words of a sentence that are read at once. A longer sentence is
            cut, after punctuation if possible, and no scope crosses the cut.
        max_scope_words (int, *optional*): Most words that are read for the scopes of texts that are read together:
            each cue takes a pass over its sentence. Texts with more are refused.

    Raises:
        ValueError: A setting has an unknown value.
    """

    convention: str = "stories"
    split_lines: bool | None = None
    terms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    threshold: float = 0.0
    max_characters: int | None = 1_000_000
    max_words: int = 160
    max_scope_words: int | None = None

    def __post_init__(self) -> None:
        check_convention(self.convention)
        if self.split_lines not in (None, True, False):
            raise ValueError(f"`split_lines` is {self.split_lines!r}; give True, False or None.")
        if not _is_number(self.threshold) or not 0 <= self.threshold <= 1:
            raise ValueError(f"`threshold` is {self.threshold!r}; give a number from 0 to 1.")
        for name, least in (("max_characters", 1), ("max_words", 8), ("max_scope_words", 1)):
            value = getattr(self, name)
            if not (value is None and name != "max_words") and not (_is_whole(value) and value >= least):
                raise ValueError(f"`{name}` is {value!r}; give a whole number from {least}.")
        check_terms(self.terms)

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Return a reading with some settings; `TypeError` for an unknown name."""
        names = [setting.name for setting in fields(cls)]
        for name in settings:
            if name not in names:
                raise TypeError(f"There is no setting {name!r}: choose from {', '.join(names)}.")
        return cls(**settings)

    @property
    def reads_lines(self) -> bool:
        """True if lines are read as those of clinical notes."""
        return self.convention == "notes" and self.split_lines is None

    def apply_terms(
        self, words: Sequence[str], cues: Sequence[tuple[FoundCue, float]]
    ) -> list[tuple[FoundCue, float]]:
        """Return the cues of a sentence by the terms of the convention, and then by the user's."""
        for terms in self._terms:
            cues = terms.apply(words, cues)
        return list(cues)

    @cached_property
    def _terms(self) -> tuple[Terms, ...]:
        return (Terms(NOTE_TERMS), Terms(self.terms)) if self.convention == "notes" else (Terms(self.terms),)

    def check_text(self, text: Any, where: str) -> None:
        """Raise `ValueError` for what is no text, too long, or has half of a character. `where` is its name."""
        if not isinstance(text, str):
            raise ValueError(f"{where} is {text!r:.60}; it must be a text.")
        if self.max_characters is not None and len(text) > self.max_characters:
            raise ValueError(
                f"{where} has {len(text):,} characters, more than {self.max_characters:,}: split it, or set"
                " `max_characters`."
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{where} has half of a character ({text[error.start]!a}) at {error.start}: decode it again."
            ) from None


def check_texts(texts: Any) -> None:
    """Raise `ValueError` for what has no texts in an order, such as a table."""
    if hasattr(texts, "columns") or hasattr(texts, "column_names"):  # of pandas, Polars, Arrow, datasets
        raise ValueError(f"The input is a table ({type(texts).__name__}): give its column of texts.")
    if not isinstance(texts, Iterable) or isinstance(texts, str | bytes | Mapping | set | frozenset):
        raise ValueError(f"The input is {texts!r:.60}; give a text, or texts in an order, such as a list.")


def check_terms(terms: Any) -> None:
    """Raise `ValueError` if a user's terms are not lists of words or phrases by `TERMS`."""
    if not isinstance(terms, Mapping):
        raise ValueError(
            f"`terms` is {terms!r:.60}; give a dict with lists of phrases by {', '.join(map(repr, TERMS))}."
        )
    seen: dict[tuple[str, ...], str] = {}
    for kind, phrases in terms.items():
        if kind not in TERMS:
            raise ValueError(f"`terms` has {kind!r}; choose one of {', '.join(map(repr, TERMS))}.")
        if isinstance(phrases, str) or not isinstance(phrases, Sequence):
            raise ValueError(f"`terms[{kind!r}]` is {phrases!r:.60}; give a list of phrases.")
        for phrase in phrases:
            words = _words(phrase) if isinstance(phrase, str) else ()
            if not words:
                raise ValueError(f"`terms[{kind!r}]` has {phrase!r}; give phrases of at least a word.")
            if seen.setdefault(words, kind) != kind:
                raise ValueError(f"`terms` has {phrase!r} as {seen[words]!r} and as {kind!r}; choose one.")


def _words(phrase: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in read_words(phrase)[0])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
