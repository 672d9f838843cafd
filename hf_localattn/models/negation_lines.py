"""Clinical notes in lines: sentences that go on in the next line, lists below headings, and findings with answers."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .negation_answers import BULLET, NEGATOR, Answer, is_reply, read_answers, strip
from .negation_text import LINE_BREAK, Offsets, split_sentences

_CONTRAST = re.compile(
    r"(?<![\s,;])[\s,;]+(?:but|except|however|although|though|aside\s+from|other\s+than)\b", re.IGNORECASE
)

_HEADING = re.compile(
    r"(?:(?:the\s+)?(?:pt|patient|he|she)\s+)?"
    r"(?:(?P<negation>(?:(?:pertinent|significant|important|relevant)\s+)?negatives?(?:\s+(?:include|are))?|no(?=\s*:\s*(?:[^\W\d]|$)))"
    r"|(?P<speculation>(?:ddx|differentials?(?:\s+diagnos[ei]s)?)(?:\s+(?:includes?|is))?)(?!.*(?:%|neutrophil|lymphocyte))"
    r"|(?P<cue>denies|denied|denying|no\s+(?:history|evidence|signs?|symptoms?)\s+of|negative\s+for|absent|ruled\s+out))"
    r"(?:\s+(?:any\s+of\s+)?the\s+following)?\s*:\s*",
    re.IGNORECASE,
)

_JOINS = re.compile(
    r"(?:[,/&(+]|(?<=\w)[-\u2010]|\b(?:and|or|nor|but|of|the|a|an|with|without|no|not|for|to|in|on|at|by|from|as|is|was|are"
    r"|were|has|had|have|be|been|any|his|her|their|than|that|which|who|due|per|denies|denied|denying|including|includes?"
    r"|(?:Dr|Mr|Mrs|Ms|vs)\.))$",
    re.IGNORECASE,
)
"""The end of a line that goes on."""

_SEMICOLON = re.compile(r";\s")
_ENDS = re.compile(r"[.!?:;\u2026][\"')\]]*$")
_STARTS_ITEM = re.compile(r"(?:no|denie[sd]|negative|not)\b")
_STARTS_KEY = re.compile(r"[A-Z][^:\n]{0,40}:(?:\s|$)")

LEAST_WIDTH = 40
"""Characters of a line that may be wrapped although nothing but its width shows it."""


@dataclass(frozen=True, slots=True)
class _Line:
    start: int  # of its text, after a bullet
    end: int
    bullet: bool
    width: int  # that of the longest line of the paragraph
    lists: bool  # True in a paragraph whose lines all begin with small letters
    signed: bool  # True in a paragraph with a line such as `+cough`
    last: bool  # of its paragraph


def split_notes(text: str, ends: Sequence[int] | None = None) -> Iterator[Offsets | Answer]:
    """Yield the sentences of a note for a model, and the findings with a known answer.

    A line break ends a sentence, unless the line is wrapped: its end or the beginning of the next line shows it.

    Args:
        text: The note.
        ends (*optional*): Where sentences end. By default they are found by rules.
    """
    prose: list[_Line] = []
    header: list[Offsets] = []
    lines = list(_lines(text))
    index = 0
    while index < len(lines):
        line = lines[index]
        heading = _HEADING.match(text, line.start, line.end)
        parts, header = ([], []) if heading else read_answers(text, (line.start, line.end), header, signed=line.signed)
        if len(parts) > 1 and prose and _is_wrapped(text, prose[-1], line):
            before = parts[0]
            if not isinstance(before, Answer):  # the end of a sentence
                prose.append(replace(line, end=before[1]))
                parts = parts[1:]
        if not parts and not heading:
            if prose and not _is_wrapped(text, prose[-1], line):
                yield from _sentences(text, prose, ends)
                prose = []
            prose.append(line)
            index += 1
        else:
            yield from _sentences(text, prose, ends)
            prose = []
            count = 1
            if heading:
                parts, count = _list(text, lines, index, heading)
            yield from _cut(text, parts, ends)
            index += count
        if line.last:
            yield from _sentences(text, prose, ends)
            prose, header = [], []
    yield from _sentences(text, prose, ends)


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines of a text that are not empty."""
    paragraph: list[tuple[int, int]] = []
    start = 0
    breaks = [*((mark.start(), mark.end()) for mark in LINE_BREAK.finditer(text)), (len(text), len(text))]
    for end, after in breaks:
        line = text[start:end]
        begin = start + len(line) - len(line.lstrip())
        if line.strip():
            paragraph.append((begin, begin + len(line.strip())))
        if paragraph and (not line.strip() or after == len(text)):
            yield from _paragraph(text, paragraph)
            paragraph = []
        start = after
    yield from _paragraph(text, paragraph)


def _paragraph(text: str, offsets: Sequence[Offsets]) -> Iterator[_Line]:
    width = max((end - start for start, end in offsets), default=0)
    lists = not any(text[start].isupper() for start, _ in offsets)
    signed = any(re.fullmatch(r"\+[^\W\d_].*|.*\s\+", text[start:end]) for start, end in offsets)
    signed = signed or (len(offsets) > 1 and all(text[end - 2 : end].strip() == "-" for _, end in offsets))
    joined: list[Offsets] = []
    for start, end in offsets:
        is_asked = joined and text[joined[-1][1] - 1] in ":?" and not _HEADING.match(text, *joined[-1])
        if is_asked and is_reply(text, start, end):
            start, _ = joined.pop()
        joined.append((start, end))
    for start, end in joined:
        bullet = BULLET.match(text, start, end)
        begin = bullet.end() if bullet and bullet.end() < end else start
        yield _Line(begin, end, begin > start, width, lists, signed, (start, end) == joined[-1])


def _is_wrapped(text: str, line: _Line, following: _Line) -> bool:
    """Return True if a sentence goes on after a line."""
    if following.bullet:
        return False
    end = text[line.start : line.end]
    begin = text[following.start : following.end]
    is_small = begin[0].islower() or begin[0] in "),;&/%"
    if _STARTS_KEY.match(begin) or (_ENDS.search(end) and not _JOINS.search(end)):
        return False
    if _JOINS.search(end) or begin[0] in "),;&/%" or end.count("(") > end.count(")"):
        return True
    word = begin.split(maxsplit=1)[0]
    is_full = line.width >= LEAST_WIDTH and len(end) + 1 + len(word) > line.width
    if begin[0].isdigit():
        return is_full
    is_item = line.lists or end.isupper() or _STARTS_ITEM.match(begin)
    return is_small and (is_full or not is_item)


def _sentences(text: str, lines: Sequence[_Line], ends: Sequence[int] | None) -> Iterator[Offsets]:
    """Yield the sentences of lines that belong together."""
    if lines:
        yield from _prose(text, lines[0].start, lines[-1].end, ends)


def _prose(text: str, start: int, end: int, ends: Sequence[int] | None) -> Iterator[Offsets]:
    """Yield the sentences from one character to another. A clause with a negation of its own is one, too."""
    if ends is None:
        sentences = [(start + begin, start + stop) for begin, stop in split_sentences(text[start:end])]
    else:
        inside = ends[bisect_right(ends, start) : bisect_left(ends, end)]
        sentences = [*zip([start, *inside], [*inside, end], strict=True)]
    for begin, stop in sentences:
        clauses = [mark.end() for mark in _SEMICOLON.finditer(text, begin, stop)]
        for clause, following in zip(clauses, [*clauses[1:], stop], strict=False):
            if NEGATOR.search(text, clause, following):
                yield from filter(None, [strip(text, begin, clause)])
                begin = clause
        yield from filter(None, [strip(text, begin, stop)])


def _cut(text: str, parts: Sequence[Offsets | Answer], ends: Sequence[int] | None) -> Iterator[Offsets | Answer]:
    for part in parts:
        if isinstance(part, Answer):
            yield part
        else:
            yield from _prose(text, *part, ends)


# --- lists


def _list(text: str, lines: Sequence[_Line], index: int, heading: re.Match[str]) -> tuple[list[Offsets | Answer], int]:
    """Return the findings below a heading such as `Denies:`, and the number of lines that they take."""
    line = lines[index]
    kind = "speculation" if heading["speculation"] else "negation"
    cue = heading.span(heading.lastgroup or 0)
    findings: list[Offsets] = []
    rest: list[Offsets] = []
    count = 1
    if offsets := strip(text, heading.end(), line.end):
        first, *others = split_sentences(text[slice(*offsets)])
        start, end = (offsets[0] + place for place in first)
        if contrast := _CONTRAST.search(text, start, end):
            if heading["cue"]:
                return [(line.start, line.end)], 1
            others = [(contrast.end() - offsets[0], offsets[1] - offsets[0])]
            end = contrast.start()
        findings += filter(None, [strip(text, start, end, ".,;")])
        rest = [(offsets[0] + begin, offsets[0] + stop) for begin, stop in others]
    is_open = not findings or text[line.end - 1] == ","
    while is_open and not lines[index + count - 1].last:
        item = lines[index + count]
        content = text[item.start : item.end]
        is_other = content.endswith(":") or _STARTS_KEY.match(content) or NEGATOR.search(content)
        if is_other or (count > 1 and item.bullet != lines[index + 1].bullet):
            break
        findings += filter(None, [strip(text, item.start, item.end, ".,;")])
        count += 1
        if content.endswith(".") and not item.bullet:
            break
    if not findings:
        return [(line.start, line.end)], 1
    end = max(line.end if rest == [] else findings[-1][1], findings[-1][1])
    return [Answer(kind, cue, tuple(findings), (line.start, end)), *rest], count
