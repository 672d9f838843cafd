"""Sentences and words of a text, with their characters."""

import re
import unicodedata
from collections.abc import Iterable

Offsets = tuple[int, int]
"""Characters [start, end) of a text."""

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

MINUS = re.compile("\u2212|(?<!\\w)\u2013|\u2013(?!\\w)")
"""The sign of mathematics, and dashes that stand for it."""

# Abbreviations that are one word, though `split_words` divides them.
_SHORT = re.compile(r"(?<![\w/])(?:[^\W\d_](?:/[^\W\d_])+|[-+]ve)(?![\w/])")
_SPELLED_OUT = {
    "w/o": "without",
    "-ve": "negative",
    "+ve": "positive",
    "n/v": "nausea and vomiting",
    "n/v/d": "nausea, vomiting and diarrhea",
}

# The end of a sentence: its marks with closing quotes and brackets, before a capital, a digit or an opening mark.
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]]*+(?=\s+[\"'\u201c\u2018(\[]*[^\W_a-z])"
    r"|[\u3002\uff01\uff1f]+|(?:\r\n|\n|\r(?!\n))\s*[\n\r]"
)
LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Periods that end no sentence, after up to `_LOOK_BACK` characters.
_LOOK_BACK = 16
_ABBREVIATION = re.compile(
    r"\b(?:(?i:mr|mrs|ms|dr|prof|st|vs|figs?|e\.g|i\.e|cf|al|approx|inc|ltd|jr|sr|temp)"
    r"|Pts?|Resp|Abd|Ext|Neuro|Wt|Ht|Hx|Rx)\.$"
)
_NUMBER = re.compile(r"\bno\.\s*\d", re.IGNORECASE)
_LIST_ITEM = re.compile(r"(?:(?:^|\n|[.!?]\s)\s*\d{1,2}|:\s*1)\.$")
_INITIAL = re.compile(r"\b[A-Z]\.$")
# A capital letter before a period is an initial (J. Smith), except after these words or before those.
_KIND = re.compile(
    r"\b(?i:hepatitis|vitamin|influenza|factor|type|group|grade|stage|class|category|level|part|plan)\s[A-Z]\.$"
)
_BEGINNING = re.compile(
    r"\s+(?:No|Not|None|Never|Denie[sd]|Negative|Patient|Pt|The|This|That|There|These|He|She|It|We|They|His|Her|On|In)\b"
)

_LESS = re.compile(r"\w\w(?P<affix>less)(?:ly|ness)?$", re.IGNORECASE)
_PREFIX = re.compile(r"(?P<affix>non|un|in|im|il|ir|dis|a)-?\w\w", re.IGNORECASE)


def split_sentences(text: str, lines: bool = False) -> list[Offsets]:
    """Return the characters [start, end) of each sentence, without the white space around it.

    With `lines` a sentence also ends at each line break.
    """
    ends = {mark.end() for mark in _END.finditer(text) if _ends_sentence(text, mark)}
    if lines:
        ends.update(mark.end() for mark in LINE_BREAK.finditer(text))
    sentences = []
    start = 0
    for end in (*sorted(ends), len(text)):
        sentence = text[start:end]
        begin = start + len(sentence) - len(sentence.lstrip())
        if stripped := sentence.strip():
            sentences.append((begin, begin + len(stripped)))
        start = end
    return sentences


def _ends_sentence(text: str, mark: re.Match[str]) -> bool:
    """Return False for the period of an abbreviation, an initial, or the number of a list item."""
    if mark[0] != ".":
        return True
    before = text[max(0, mark.start() - _LOOK_BACK) : mark.end()]
    if _INITIAL.search(before):
        return bool(_KIND.search(before) or _BEGINNING.match(text, mark.end()))
    is_numbered = _NUMBER.match(text, mark.start() - len("no")) or _LIST_ITEM.search(before)
    return not (is_numbered or _ABBREVIATION.search(before))


def split_words(text: str) -> list[Offsets]:
    """Return the characters [start, end) of each word and punctuation mark."""
    words: list[Offsets] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        # A combining mark, such as an accent, is not in `\w`. It does not end a word.
        joins = words and words[-1][1] == start and (_is_mark(text[start]) or _is_mark(text[start - 1]))
        if joins and (text[end - 1].isalnum() or _is_mark(text[start])):
            start = words.pop()[0]
        words.append((start, end))
    return words


def read_words(text: str) -> tuple[list[str], list[Offsets]]:
    """Return the words of a text as a model reads them, abbreviations spelled out, and the characters of each."""
    words: list[str] = []
    offsets: list[Offsets] = []
    place = 0
    for short in (*_SHORT.finditer(text), None):
        stop = len(text) if short is None else short.start()
        for begin, end in split_words(text[place:stop]):
            words.append(text[place + begin : place + end])
            offsets.append((place + begin, place + end))
        if short is not None:
            words.append(_SPELLED_OUT.get(short[0].lower(), short[0]))
            offsets.append(short.span())
            place = short.end()
    return words, offsets


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character).startswith("M")


def affix_offsets(word: str) -> Offsets:
    """Return the characters of the negative affix of an English word, or of the whole word if it has none."""
    match = _LESS.search(word) or _PREFIX.match(word)
    return match.span("affix") if match else (0, len(word))


def join_over_blanks(text: str, spans: Iterable[Offsets]) -> list[Offsets]:
    """Join neighboring spans of a text that have only white space between them."""
    joined: list[Offsets] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            start, _ = joined.pop()
        joined.append((start, end))
    return joined
