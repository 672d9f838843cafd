"""Split raw text into sentences and words, as in the Penn Treebank and the corpora that follow it."""

import re
import unicodedata
from collections.abc import Iterable

Offsets = tuple[int, int]

_APOSTROPHE = "['\u2019]"
_WORD = re.compile(
    rf"""
    \w+?(?=n{_APOSTROPHE}t\b) | n{_APOSTROPHE}t\b     # do n't
    | o{_APOSTROPHE}clock
    | can(?=not\b) | (?<=can)not\b                    # can not
    | {_APOSTROPHE}(?:s|m|d|ll|re|ve)\b               # she 'll
    | (?:[^\W\d_]\.){{2,}}                            # U.S. and e.g.
    | (?:Mr|Mrs|Ms|Dr|Prof|St|vs|Fig)\.(?=\s*[\w(]) | No\.(?=\s*\d)
    | \d+(?:[.,:/]\d+)+\w*                            # 1,000 and 3.5mg
    | \w+(?:[-\u2010\u2011]\w+)*
    | (?P<repeated>[^\w\s])(?P=repeated)*             # ... and --
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ABBREVIATION = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|prof|st|vs|fig|figs|e\.g|i\.e|cf|al|approx|inc|ltd|jr|sr)|\b[A-Z])\.$"
)
_NUMBER = re.compile(r"\bno\.\s*\d", re.IGNORECASE)
# The end of a sentence: its marks with closing quotes and brackets, before a capital, a digit or an opening mark.
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]]*+(?=\s+[\"'\u201c\u2018(\[]*[^\W_a-z])"
    r"|[\u3002\uff01\uff1f]+|\n\s*\n"
)
_LINE_END = re.compile(r"\n")


def split_sentences(text: str, lines: bool = False) -> list[Offsets]:
    """Return the characters [start, end) of each sentence, without the white space around it.

    Args:
        text: Raw text.
        lines (bool, *optional*, defaults to False): If True, a sentence also ends at each line break.

    Example:
        >>> text = "Dr. Moran saw no one. He left."
        >>> [text[start:end] for start, end in split_sentences(text)]
        ['Dr. Moran saw no one.', 'He left.']
    """
    ends = {match.end() for match in _END.finditer(text) if not _is_abbreviation(text, match)}
    if lines:
        ends.update(match.end() for match in _LINE_END.finditer(text))
    sentences, start = [], 0
    for end in (*sorted(ends), len(text)):
        sentence = text[start:end]
        begin = start + len(sentence) - len(sentence.lstrip())
        if stripped := sentence.strip():
            sentences.append((begin, begin + len(stripped)))
        start = end
    return sentences


def split_words(text: str) -> list[Offsets]:
    """Return the characters [start, end) of each word and punctuation mark.

    Example:
        >>> text = "She didn't go."
        >>> [text[start:end] for start, end in split_words(text)]
        ['She', 'did', "n't", 'go', '.']
    """
    words: list[Offsets] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        # A combining mark, such as an accent, is not in `\w`. It does not end a word.
        joins = words and words[-1][1] == start and (_is_mark(text[start]) or _is_mark(text[start - 1]))
        if joins and (text[end - 1].isalnum() or _is_mark(text[start])):
            start = words.pop()[0]
        words.append((start, end))
    return words


def join_over_blanks(text: str, spans: Iterable[Offsets]) -> list[Offsets]:
    """Join neighboring spans of a text that have only white space between them.

    Example:
        >>> join_over_blanks("by no means, not", [(0, 2), (3, 5), (6, 11), (13, 16)])
        [(0, 11), (13, 16)]
    """
    joined: list[Offsets] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            start, _ = joined.pop()
        joined.append((start, end))
    return joined


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _is_abbreviation(text: str, match: re.Match[str]) -> bool:
    if match.group() != ".":
        return False
    before = text[max(0, match.start() - 8) : match.end()]
    return bool(_ABBREVIATION.search(before) or _NUMBER.match(text, match.start() - 2))
