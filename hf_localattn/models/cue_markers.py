"""Cue markers: special words in a text that mark the next word as part of a cue, such as a negation.

This module works on plain text and is independent of tokenizers.
"""

import re
from collections.abc import Sequence

CUE_MARKER = "[CUE]"
"""Marker before each word of a cue: `I do [CUE] not know`."""

TYPED_MARKERS = {kind: f"[CUE:{kind}]" for kind in ("affix", "single", "multi")}
"""Markers by type of cue: a part of a word, one word, or several words."""

MARKERS = (CUE_MARKER, *TYPED_MARKERS.values())

ANY_MARKER = "|".join(map(re.escape, MARKERS))
"""Pattern of any marker."""


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
    if not isinstance(cue, Sequence) or len(tokens) != len(cue) or not all(label in (0, 1) for label in cue):
        raise ValueError(f"`cue` is {cue!r} for {len(tokens)} words: give 0 or 1 for each.")
    marker = CUE_MARKER if cue_type is None else TYPED_MARKERS[cue_type]
    marked: list[str] = []
    for token, is_cue in zip(tokens, cue, strict=True):
        marked += [marker, token] if is_cue else [token]
    return marked
