"""Cue markers: the words in a text that say which words after them are a cue, such as a negation.

Plain text in, plain text out: what encodes it is not known here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

CUE_MARKER = "[CUE]"
"""Stands before each word of a cue: `I do [CUE] not know`."""

TYPED_MARKERS = {kind: f"[CUE:{kind}]" for kind in ("affix", "single", "multi")}
"""Markers that tell as well what the cue is: a part of the word, one word, several words."""

MARKERS = (CUE_MARKER, *TYPED_MARKERS.values())

MARKER_MODES = ("keep", "drop", "typed")
"""Treatments of the markers in a text: see `read_cues`."""

_ANY = "|".join(map(re.escape, MARKERS))
_MARKER = re.compile(_ANY)
# With the blanks before it, of which byte-level and sentence-piece backends would make a token.
_WRITTEN = re.compile(rf"(?<!\s)\s*(?:{_ANY})")
# With the blanks after it, where those before it do for both sides.
_DROPPED = re.compile(rf"(?<!\S)(?:{_ANY})\s*|{_ANY}")
# An apostrophe, straight or curly, or a hyphen inside a word does not end it. What does not begin as a word reaches to
# the next blank or marker.
_CUE = re.compile(rf"(?:{_ANY})(?:\s*(?:{_ANY}))*\s*(?P<word>\w+(?:['\u2019-]\w+)*|(?:(?!{_ANY})\S)+)?")

Offsets = tuple[int, int]


def is_marker(word: str) -> bool:
    """Return True for a cue marker, plain or typed."""
    return word in MARKERS


def mark_cues(tokens: Sequence[str], cue: Sequence[int], cue_type: str | None = None) -> list[str]:
    """Put a marker before each word of a cue.

    Args:
        tokens: the words of a sentence.
        cue: of each word 1 if it is of the cue, also if only an affix of it is, or 0.
        cue_type: "affix", "single" or "multi" for a typed marker; `None` for a plain one.

    Raises:
        ValueError: another type, or not one 0 or 1 for each word.
    """
    if cue_type is not None and cue_type not in tuple(TYPED_MARKERS):
        raise ValueError(f"`cue_type` is {cue_type!r}; choose one of {', '.join(map(repr, TYPED_MARKERS))}, or None.")
    if not isinstance(cue, Sequence) or len(tokens) != len(cue) or not all(one in (0, 1) for one in cue):
        raise ValueError(f"`cue` is {cue!r} for {len(tokens)} words: give 0 or 1 for each.")
    marker = CUE_MARKER if cue_type is None else TYPED_MARKERS[cue_type]
    return [one for token, is_cue in zip(tokens, cue, strict=True) for one in ([marker, token] if is_cue else [token])]


@dataclass(frozen=True, slots=True)
class CuedText:
    """A text with its markers as they are to be encoded, and the way back to the text as given.

    Attributes:
        encoded: the text to encode.
        cues: offsets [begin, end) of the cue words in the text as given.
        has_marker: whether there is any, be it without a word after it.
        origins: of each character of `encoded` the offsets in the text as given that it stands for, and at last those
            of the end. `None`: the two are the same.
    """

    encoded: str
    cues: tuple[Offsets, ...] = ()
    has_marker: bool = False
    origins: tuple[Offsets, ...] | None = None

    def restored(self, offsets: Offsets, word: int | None) -> tuple[Offsets, int | None]:
        """Offsets and word number of a token in the text as given, from those in `encoded`."""
        if self.origins is None:
            return offsets, word
        begin, end = offsets
        start, stop = self.origins[begin][0], self.origins[max(begin, end - 1)][1]
        return (start, stop if begin < end else start), word

    def is_cue(self, offsets: Offsets, word: int | None) -> bool:
        """Return True for a token of a cue word, by its offsets in the text as given.

        An empty token (a byte-level blank whose offsets were trimmed) is of the word that begins there.
        """
        start, stop = offsets[0], max(offsets[1], offsets[0] + 1)
        return any(start < end and begin < stop for begin, end in self.cues)


@dataclass(frozen=True, slots=True)
class CuedWords:
    """As `CuedText`, of a text that is split into words, some of which are markers.

    Attributes:
        encoded: the words to encode.
        cues: numbers of the cue words among the words as given.
        has_marker: whether there is any.
        origins: of each word of `encoded` its number among the words as given, and for a marker its offsets there.
            `None`: the two are the same.
    """

    encoded: Sequence[str]
    cues: frozenset[int] = frozenset()
    has_marker: bool = False
    origins: tuple[tuple[int, Offsets | None], ...] | None = None

    def restored(self, offsets: Offsets, word: int | None) -> tuple[Offsets, int | None]:
        """Offsets and word number of a token among the words as given, from those in `encoded`."""
        if self.origins is None or word is None:
            return offsets, word
        number, whole = self.origins[word]
        return whole or offsets, number

    def is_cue(self, offsets: Offsets, word: int | None) -> bool:
        """Return True for a token of a cue word, by its word's number among the words as given."""
        return word in self.cues


def read_cues(text: str | Sequence[str], mode: str) -> CuedText | CuedWords:
    """Find the cue words of a text, and write its markers as a mode wants them.

    The word after a marker is a cue word. In plain text it is a run of letters, digits and apostrophes or hyphens
    between them, or else all up to the next blank; among given words it is the next that is not empty. A marker with
    nothing after it marks nothing.

    Args:
        text: a text, or its words, markers being words of their own.
        mode: "keep": all markers are plain ones; "drop": there are none, nor the blanks between a marker and its
            word; "typed": plain ones tell whether the text has one cue word or several, typed ones stay. No blanks
            are before those that stay.

    Raises:
        ValueError: a given word holds a marker and something else.
    """
    if isinstance(text, str):
        return _read_text(text, mode) if _MARKER.search(text) else CuedText(text)
    return _read_words(text, mode) if any(map(_MARKER.search, text)) else CuedWords(text)


def _written(marker: str, mode: str, number_of_cues: int) -> str:
    if mode == "drop":
        return ""
    if mode == "keep":
        return CUE_MARKER
    return TYPED_MARKERS["multi" if number_of_cues > 1 else "single"] if marker == CUE_MARKER else marker


def _read_text(text: str, mode: str) -> CuedText:
    cues = tuple(match.span("word") for match in _CUE.finditer(text) if match["word"])
    pieces: list[str] = []
    origins: list[Offsets] = []
    end = 0
    for match in (_DROPPED if mode == "drop" else _WRITTEN).finditer(text):
        marker = match[0].strip()
        written = _written(marker, mode, len(cues))
        pieces += text[end : match.start()], written
        origins += [(place, place + 1) for place in range(end, match.start())] + [
            (match.end() - len(marker), match.end())
        ] * len(written)
        end = match.end()
    encoded = "".join([*pieces, text[end:]])
    origins += [(place, place + 1) for place in range(end, len(text))] + [(len(text), len(text))]
    return CuedText(encoded, cues, has_marker=True, origins=tuple(origins) if encoded != text else None)


def _read_words(words: Sequence[str], mode: str) -> CuedWords:
    cues = set()
    after_marker = False
    for number, word in enumerate(words):
        if is_marker(word):
            after_marker = True
        elif _MARKER.search(word):
            raise ValueError(
                f"Word {number} ({word!r}) holds a cue marker and something else: in a text that is split into words,"
                " a marker is a word of its own."
            )
        elif after_marker and word.strip():
            cues.add(number)
            after_marker = False
    encoded: list[str] = []
    origins: list[tuple[int, Offsets | None]] = []
    for number, word in enumerate(words):
        if not is_marker(word):
            encoded.append(word)
            origins.append((number, None))
        elif written := _written(word, mode, len(cues)):
            encoded.append(written)
            origins.append((number, (0, len(word))))
    same = encoded == list(words)
    return CuedWords(encoded, frozenset(cues), has_marker=True, origins=None if same else tuple(origins))
