"""Cue markers: special words in a text that mark the next word as part of a cue, such as a negation.

This module works on plain text and is independent of tokenizers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

CUE_MARKER = "[CUE]"
"""Marker before each word of a cue: `I do [CUE] not know`."""

TYPED_MARKERS = {kind: f"[CUE:{kind}]" for kind in ("affix", "single", "multi")}
"""Markers by type of cue: a part of a word, one word, or several words."""

MARKERS = (CUE_MARKER, *TYPED_MARKERS.values())

MARKER_MODES = ("keep", "drop", "typed")
"""Values of `cue_marker`. See `read_cues`."""

_ANY = "|".join(map(re.escape, MARKERS))
_MARKER = re.compile(_ANY)
# Includes the spaces before a marker: byte-level and SentencePiece tokenizers would encode them as a token.
_WRITTEN = re.compile(rf"(?<!\s)\s*(?:{_ANY})")
# Includes the spaces after a marker, unless it directly follows a word.
_DROPPED = re.compile(rf"(?<!\S)(?:{_ANY})\s*|{_ANY}")
# An apostrophe (straight or curly) or a hyphen inside a word does not end it. A cue that does not start with a letter
# or digit ends at the next space or marker.
_CUE = re.compile(rf"(?:{_ANY})(?:\s*(?:{_ANY}))*\s*(?P<word>\w+(?:['\u2019-]\w+)*|(?:(?!{_ANY})\S)+)?")

Offsets = tuple[int, int]


def is_marker(word: str) -> bool:
    """Return True for a cue marker, plain or typed."""
    return word in MARKERS


def mark_cues(tokens: Sequence[str], cue: Sequence[int], cue_type: str | None = None) -> list[str]:
    """Insert a marker before each word of a cue.

    Args:
        tokens: Words of a sentence.
        cue: A label for each word: 1 if the word or an affix of it belongs to the cue, else 0.
        cue_type (str, *optional*): Type of the markers: "affix", "single" or "multi". By default they are plain.

    Returns:
        Words and markers.

    Raises:
        ValueError: `cue_type` is unknown, or `cue` does not have a 0 or 1 for each word.

    Example:
        >>> mark_cues(["I", "do", "not", "know"], [0, 0, 1, 0])
        ['I', 'do', '[CUE]', 'not', 'know']
    """
    if cue_type is not None and cue_type not in tuple(TYPED_MARKERS):
        raise ValueError(f"`cue_type` is {cue_type!r}; choose one of {', '.join(map(repr, TYPED_MARKERS))}, or None.")
    if not isinstance(cue, Sequence) or len(tokens) != len(cue) or not all(one in (0, 1) for one in cue):
        raise ValueError(f"`cue` is {cue!r} for {len(tokens)} words: give 0 or 1 for each.")
    marker = CUE_MARKER if cue_type is None else TYPED_MARKERS[cue_type]
    return [one for token, is_cue in zip(tokens, cue, strict=True) for one in ([marker, token] if is_cue else [token])]


@dataclass(frozen=True, slots=True)
class CuedText:
    """A text to encode, with the alignment to the given text.

    Attributes:
        encoded: Text to encode.
        cues: Offsets [begin, end) of the cue words in the given text.
        has_marker: True if the given text has a marker, even if no word follows it.
        origins: Offsets in the given text of each character of `encoded` and of its end. `None` if the text is
            unchanged.
    """

    encoded: str
    cues: tuple[Offsets, ...] = ()
    has_marker: bool = False
    origins: tuple[Offsets, ...] | None = None

    def restored(self, offsets: Offsets, word: int | None) -> tuple[Offsets, int | None]:
        """Map offsets and word number of a token in `encoded` to those in the given text."""
        if self.origins is None:
            return offsets, word
        begin, end = offsets
        start, stop = self.origins[begin][0], self.origins[max(begin, end - 1)][1]
        return (start, stop if begin < end else start), word

    def is_cue(self, offsets: Offsets, word: int | None) -> bool:
        """Return True for a token of a cue word, given its offsets in the given text.

        An empty token, such as a byte-level space with trimmed offsets, belongs to the word that starts there.
        """
        start, stop = offsets[0], max(offsets[1], offsets[0] + 1)
        return any(start < end and begin < stop for begin, end in self.cues)


@dataclass(frozen=True, slots=True)
class CuedWords:
    """Words to encode, with the alignment to the given words.

    Attributes:
        encoded: Words to encode.
        cues: Indices of the cue words in the given words.
        has_marker: True if the given words contain a marker.
        origins: Index in the given words of each word of `encoded`, with the offsets of a marker. `None` if the words
            are unchanged.
    """

    encoded: Sequence[str]
    cues: frozenset[int] = frozenset()
    has_marker: bool = False
    origins: tuple[tuple[int, Offsets | None], ...] | None = None

    def restored(self, offsets: Offsets, word: int | None) -> tuple[Offsets, int | None]:
        """Map offsets and word index of a token in `encoded` to those in the given words."""
        if self.origins is None or word is None:
            return offsets, word
        number, whole = self.origins[word]
        return whole or offsets, number

    def is_cue(self, offsets: Offsets, word: int | None) -> bool:
        """Return True for a token of a cue word, given the index of its word in the given words."""
        return word in self.cues


def read_cues(text: str | Sequence[str], mode: str) -> CuedText | CuedWords:
    """Find the cue words of a text and rewrite its markers.

    The word after a marker is a cue word. In a text, a cue word is a sequence of letters and digits, with apostrophes
    or hyphens between them; any other cue ends at the next space. In a list, the next word that is not empty is the
    cue word. A marker at the end is ignored.

    Args:
        text: A text, or a list of words in which markers are separate words.
        mode: "keep" makes all markers plain. "drop" removes the markers and the spaces after them. "typed" keeps typed
            markers and replaces plain ones by `[CUE:single]` or `[CUE:multi]`, depending on the number of cue words.
            Spaces before kept markers are removed.

    Returns:
        The text or words to encode, with their alignment to the given ones.

    Raises:
        ValueError: A word contains a marker and other characters.
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
                f"Word {number} ({word!r}) contains a cue marker and other characters: make the marker a separate"
                " word."
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
