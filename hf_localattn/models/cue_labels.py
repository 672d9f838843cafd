"""Labels of a token classifier that finds cues and scopes, and the conversion of labels to cues.

A text without cue markers asks for its cues: each word has `O` or the label of a cue, such as `negation:single`. A
text with cue markers asks for the scope of the marked cue: each word has `O` or `SCOPE`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .text_splitting import Offsets

OUTSIDE, INSIDE = SCOPE_LABELS = ("O", "SCOPE")
"""Labels of words outside the scope, and of words in it."""

CUE_KINDS = ("negation", "speculation")

CUE_TYPES = ("affix", "single", "multi")
"""Types of cues: part of a word (`in` of `infrequent`), one word, several words."""

_LESS = re.compile(r"\w\w(?P<affix>less)(?:ly|ness)?$", re.IGNORECASE)
_PREFIX = re.compile(r"(?P<affix>non|un|in|im|il|ir|dis|a)-?\w\w", re.IGNORECASE)


def cue_label(kind: str, cue_type: str) -> str:
    """Return the label of a cue's words, such as `negation:affix`."""
    return f"{kind}:{cue_type}"


def cue_label_names(kinds: Iterable[str]) -> list[str]:
    """Return the labels of cues of these kinds, in order."""
    return [cue_label(kind, cue_type) for kind in kinds for cue_type in CUE_TYPES]


def is_cue_label(label: str) -> bool:
    """Return True for the label of a cue."""
    kind, _, cue_type = label.partition(":")
    return kind in CUE_KINDS and cue_type in CUE_TYPES


def has_cue_labels(labels: Iterable[str]) -> bool:
    """Return True if a label is that of a cue: the model then finds cues in texts without markers."""
    return any(is_cue_label(str(label)) for label in labels)


@dataclass(frozen=True)
class FoundCue:
    """A cue that was predicted.

    Attributes:
        kind: One of `CUE_KINDS`.
        type: One of `CUE_TYPES`.
        words: Indices of its words in the sentence.
    """

    kind: str
    type: str
    words: tuple[int, ...]


def group_cues(labels: Sequence[str]) -> list[FoundCue]:
    """Return the cues in the predicted labels of a sentence's words, in the order of their first words.

    A word with the label of an affix or a single word is a cue. Adjacent words of a `multi` label are one cue (`no
    longer`). Isolated words of a `multi` label are parts of one cue (`neither ... nor`), or a single word if there is
    only one.

    Example:
        >>> multi = "negation:multi"
        >>> [cue.words for cue in group_cues(["O", multi, "O", multi, "O", "negation:affix"])]
        [(1, 3), (5,)]
    """
    cues, isolated = [], dict[str, list[int]]()
    start = 0
    while start < len(labels):
        kind, _, cue_type = labels[start].partition(":")
        end = start + 1
        if is_cue_label(labels[start]):
            while cue_type == "multi" and end < len(labels) and labels[end] == labels[start]:
                end += 1
            if cue_type == "multi" and end == start + 1:
                isolated.setdefault(kind, []).append(start)
            else:
                cues.append(FoundCue(kind, cue_type, tuple(range(start, end))))
        start = end
    cues += [FoundCue(kind, "multi" if len(words) > 1 else "single", tuple(words)) for kind, words in isolated.items()]
    return sorted(cues, key=lambda cue: cue.words)


def affix_offsets(word: str) -> Offsets:
    """Return the characters [start, end) of the negative affix of an English word, or the whole word if it has none.

    Example:
        >>> affix_offsets("careless"), affix_offsets("unhappy")
        ((4, 8), (0, 2))
    """
    match = _LESS.search(word) or _PREFIX.match(word)
    return match.span("affix") if match else (0, len(word))
