"""Findings with a known answer in a line of a clinical note, which need no model.

They are pairs such as `Diabetes: no`, rows of tables, boxes that are checked or not, and items with signs.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .negation_text import Offsets


@dataclass(frozen=True, slots=True)
class Answer:
    """Findings and their answer."""

    kind: str | None  # "negation" or "speculation"; None if the findings are affirmed, or nothing is said
    cue: Offsets  # characters of the answer
    findings: tuple[Offsets, ...]
    sentence: Offsets


_CROSS = "[\u2716\u2717\u2718\u274c]\ufe0f?"
_TICK = "[\u2713\u2714\u2705]\ufe0f?"
_NO = (
    r"not\s+(?:present|seen|detected|identified|found|noted|palpable|felt|heard|appreciated|visuali[sz]ed|evident)"
    r"|none\s+(?:known|seen|noted|present|identified|found|reported)"
    r"|non[-\s]?reactive|undetect(?:ed|able)|no|none|negative|neg|n|absent|nil|never|denies|denied|false|x?0(?:/10|\+)?"
    rf"|\(-\)|-(?:ve)?|\u00d8|\u2205|{_CROSS}"
)
_YES = rf"yes|y|positive|pos|present|true|reactive|detected|\(\+\)|\+{{1,4}}|\+ve|{_TICK}"
_MAYBE = r"possible|possibly|probable|probably|suspected|uncertain|unclear|equivocal|indeterminate|maybe|\?"
_OR = r"(?:\s?/\s?|\s+or\s+)"
_UNFILLED = rf"n/a|(?:{_NO}){_OR}(?:{_YES})|(?:{_YES}){_OR}(?:{_NO})"
_ANSWER = re.compile(
    rf"\[?(?:(?P<unfilled>{_UNFILLED})|(?P<negation>{_NO})|(?P<yes>{_YES})|(?P<speculation>{_MAYBE}))"
    r"(?![\w+-]|[.,]\d|(?<=\b\w)/\w\b)\]?",  # "N/V" has no answer
    re.IGNORECASE,
)
_AFTER_ANSWER = re.compile(
    r"\s*(?:$|[;,.]\s*(?=\S|$)|\s[-\u2014]+\s+|\|\s*)|\s*(?=\(|s/p\b|status\s+post\b)|\t\s*| {2,}"
)
_TO_NEXT = re.compile(r"\s*/\s*|\s")  # "Fever: no Cough: yes"

_REPLY = r"(?:(?:Answer|A):\s*)?"

_MARK = "[-*\u2022\u00b7\u2014\u25cf\u25aa\u25e6>]"
BULLET = re.compile(rf"(?:(?:{_MARK}|o)\s+|\(?\d{{1,2}}[.)]\s+|[\u2022\u25cf\u25aa\u25e6])")

# A finding: a few words without a mark that ends a sentence or separates.
_FINDING = re.compile(
    r"[^\W\d_](?:[^:=?|\t\n;.\[]|\.(?=[^\s.])){0,70}?(?<!\s)(?=\s*(?:[:=?\u2192]|->|\.{3}|_{3}|\s[-\u2014]|\s\[))"
)
_SEPARATOR = re.compile(
    rf"\s*(?:[:?\u2192]|[-=]>|=|\.{{3,}}|_{{3,}}|\s[-\u2014]{{1,2}}(?=\s))"
    rf"(?:[ \t]*[\n\r]\s*(?:{BULLET.pattern})?|\s*){_REPLY}|\s+(?=\[[^\]\s]+\])"
)
_BEFORE_FINDING = re.compile(r"(?:[.;,/]|(?<!\w)(?:Question|Q):)\s+")
_LAST_MARK = re.compile(r"(?<!\s)\s*[;,]\s*")  # begins once in a run of blanks
_WIDE = re.compile(r"(?<=\S) {2,}(?=\S)")
_TELLS = (
    r"\b(?:has|have|had|is|are|was|were|does|did|presents?|presented|reports?|reported|complains?|complained|state[sd]?"
    r"|says?|said|tells?|told|ask(?:s|ed)|answered|repl(?:y|ies|ied)|thinks?|thought|seen|came|admitted|takes?|feels?|felt"
    r"|he|she|they|patient|pt|name|dr|doctor|surgeon|physician|nurse)\b"
)
_TELLING = re.compile(_TELLS, re.IGNORECASE)
_PROSE = re.compile(rf"{_TELLS}|\b(?:with|for|since|today|yesterday|ago|p[ms]h|hpi|s/p|c/o)\b|\d", re.IGNORECASE)
"""What shows that words before a comma are no part of a list of findings."""

NEGATOR = re.compile(
    r"\b(?:no|not|cannot|non|none|nothing|without|den(?:y|ies|ied)|absen(?:t|ce)|negatives?|never|free|lack|excluded"
    r"|ruled\s+out)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
MOST_WORDS = 8
"""Words of a finding before its answer."""

_BOX = re.compile(
    rf"(?P<open>\[\s{{0,3}}\]|\[\s?{_CROSS}\s?\]|\(\s{{1,3}}\)|[\u2610\u25a1])"
    rf"|(?P<checked>\[\s?(?:[xX*]|{_TICK})\s?\]|\(\s?(?:[xX]|{_TICK})\s?\)|[\u2611\u2612\u25a0])"
)
_SIGN = re.compile(
    rf"(?:(?<=[\s,;(])|^)(?:(?:[(\[][-+?][)\]]|{_CROSS}|{_TICK})\s?|[-+?\u00d8\u00f8\u2205])(?!ve\b)(?=[^\W\d_])"
    r"|(?:(?<=[\n\r])|(?<=[-:;,(]\s)|^)\?\s(?=[^\W\d_])"
)
_SIGN_KINDS = {"+": None, "?": "speculation", **dict.fromkeys("\u2713\u2714\u2705")}
_LETTERS = "\u00d8\u00f8"
"""Signs that also begin names, such as that of \u00d8degaard."""
_AFTER_NAME = re.compile(rf"[^;.\n\r]{{0,40}}?(?:[A-Z][a-z]|{_TELLS})")

_KEY = re.compile(r"[^\W\d_][^:,;|\n\r]{0,40}:\s+")
_ANSWERED_ITEM = re.compile(
    r"(?!(?:or|nor|so|then|if|when|because)\b)(?P<item>[^\W\d_](?:[^-+()\[\],;:.?=|\n\r]|-(?=\w)){0,60}?)"
    rf"(?:\s*(?P<sign>[-+]|\([-+]\)|\[[-+]\]|{_CROSS}|{_TICK})|\s+(?P<number>x?\d{{1,2}}(?:/10|\+)?)|\s+(?P<word>{_ANSWER.pattern}))"
    r"(?:[\s,;./]+(?:(?:and|but)\s+)?|$)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"\b(?:apgar|bed|category|class|cycle|day|grade|group|level|month|no|number|phase|pod|room|score|stage|temp(?:erature)?"
    r"|time|type|visit|week|year|zone)$",
    re.IGNORECASE,
)
"""Words before a number that is no amount."""
_AFTER_ITEM = re.compile(r"[;.](?:\s|$)")
_AFTER_QUERY = re.compile(r"[;.](?:\s|$)|[,)]")
_CHECK = re.compile(rf"[xX\u2611\u2612]|{_TICK}|\[[xX]\]|\([xX]\)")


def strip(text: str, start: int, end: int, marks: str = "") -> Offsets | None:
    """Return the characters without white space and some marks around them; None without any."""
    while start < end and (text[start].isspace() or text[start] in marks):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in marks):
        end -= 1
    return (start, end) if start < end else None


def read_answers(
    text: str, line: Offsets, header: list[Offsets], *, signed: bool
) -> tuple[list[Offsets | Answer], list[Offsets]]:
    """Return the parts of a line that has findings with their answers, and the header of its table.

    Args:
        text: The note.
        line: Characters of the line, without a bullet.
        header: Cells of the first row of the table above the line; empty if there is none.
        signed: If True, a sign at the beginning of the line is one, and no bullet.

    Returns:
        Answers and sentences for the model, empty for a line of prose; and the header for the next line.
    """
    start, end = line
    content = text[start:end]
    if "|" in content or "\t" in content:
        parts, header = _row(text, start, end, header)
        return parts or _answers_behind(text, start, end, signed), header
    parts = _boxes(text, start, end) or _pairs(text, start, end, signed)
    parts = parts or _answers_behind(text, start, end, signed)
    parts = parts or _signs(text, start, end, signed) or _whole_pair(text, start, end)
    return (parts, []) if parts or not _WIDE.search(content) else _row(text, start, end, header)


# --- pairs


def _pairs(text: str, start: int, end: int, signed: bool = False) -> list[Offsets | Answer]:
    """Return the pairs of findings and answers of a line, and the rest of it; empty if there are none."""
    parts: list[Offsets | Answer] = []
    place = after = start
    while place < end:
        if pair := _pair(text, place, end):
            parts += filter(None, [strip(text, after, place, ";,")])
            answer, place = pair
            after = place
            parts.append(answer)
        else:
            mark = _BEFORE_FINDING.search(text, place, end)
            place = mark.end() if mark else end
    if after == start:
        return []
    if rest := strip(text, after, end, ";,"):
        parts += _signs(text, *rest, signed) or [rest]
    return parts


def _whole_pair(text: str, start: int, end: int) -> list[Offsets | Answer]:
    """Return the pair that a whole line is, such as `fever, no`."""
    mark = _LAST_MARK.search(text, start, end)
    if not mark or not text[start].isalpha() or not _is_finding(before := text[start : mark.start()]):
        return []
    if _PROSE.search(before):
        return []
    answer = _whole_answer(text, mark.end(), end)
    finding = (start, mark.start())
    return [Answer(_kind(text, finding, answer), answer.span(), (finding,), (start, end))] if answer else []


def _pair(text: str, start: int, end: int) -> tuple[Answer, int] | None:
    """Return a finding with its answer, and where the next may begin."""
    finding, answer = _match_pair(text, start, end)
    if not finding or not answer:
        return None
    after = _AFTER_ANSWER.match(text, answer.end(), end)
    place = after.end() if after else answer.end()
    if after is None:
        mark = _TO_NEXT.match(text, answer.end(), end)
        if not mark or not all(_match_pair(text, mark.end(), end)):
            return None
        place = mark.end()
    offsets = (finding.start(), finding.start() + len(finding[0].rstrip()))
    return Answer(_kind(text, offsets, answer), answer.span(), (offsets,), (finding.start(), answer.end())), place


def _match_pair(text: str, start: int, end: int) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    """Return a finding and its answer, whatever is behind it."""
    finding = _FINDING.match(text, start, end)
    if not finding or not _is_finding(finding[0]):
        return None, None
    separator = _SEPARATOR.match(text, finding.end(), end)
    return finding, separator and _ANSWER.match(text, separator.end(), end)


def _is_finding(text: str) -> bool:
    """Return True for a few words, or a list of findings, that say nothing about an answer."""
    is_short = len(text.split()) <= MOST_WORDS and not NEGATOR.search(text)
    return is_short and not _PROSE.search(text, 0, text.rfind(",") + 1)


def _kind(text: str, finding: Offsets, answer: re.Match[str]) -> str | None:
    """Return what an answer says of a finding; None if it is there, or if the answer says nothing, as in `stage 0`."""
    if answer.lastgroup in ("unfilled", "yes") or (
        answer[0][-1].isdigit() and _NUMBERED.search(text[slice(*finding)])
    ):
        return None
    return answer.lastgroup


def _whole_answer(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the answer that some characters are."""
    offsets = strip(text, start, end, ".;,")
    answer = offsets and _ANSWER.match(text, *offsets)
    return answer if answer and offsets and answer.end() == offsets[1] else None


def is_reply(text: str, start: int, end: int) -> bool:
    """Return True for a line that is the answer to the finding in the line above."""
    bullet = BULLET.match(text, start, end)
    mark = re.compile(_REPLY).match(text, bullet.end() if bullet else start, end)
    return bool(mark and _whole_answer(text, mark.end(), end))


# --- boxes


def _boxes(text: str, start: int, end: int) -> list[Offsets | Answer]:
    """Return the findings with their boxes; empty without a box."""
    boxes = list(_BOX.finditer(text, start, end))
    if not any(box["open"] or box[0][0] in "[\u2611\u2612\u25a0" for box in boxes):
        return []
    before = strip(text, start, boxes[0].start(), ":-")
    starts = [box.end() for box in boxes]
    labels_after = [
        strip(text, box.end(), stop, ",;")
        for box, stop in zip(boxes, [*(b.start() for b in boxes[1:]), end], strict=True)
    ]
    labels_before = [
        strip(text, begin, box.start(), ",;") for begin, box in zip([start, *starts[:-1]], boxes, strict=True)
    ]
    if before and len(boxes) > 1:
        choice = _choice(text, before, boxes, labels_after) or _choice(text, before, boxes, labels_before)
        if choice is not None:
            return choice
    is_key = before and text[before[1] : boxes[0].start()].strip().startswith(":")
    labels = labels_after if labels_after[-1] and (not before or is_key) else labels_before
    parts: list[Offsets | Answer] = []
    for box, label in zip(boxes, labels, strict=True):
        if label is None:
            continue
        if NEGATOR.search(text[slice(*label)]):
            parts += [label] if box["checked"] else []
        else:
            sentence = (min(label[0], box.start()), max(label[1], box.end()))
            parts.append(Answer("negation" if box["open"] else None, box.span(), (label,), sentence))
    return parts or [(start, end)]


def _choice(
    text: str, before: Offsets, boxes: Sequence[re.Match[str]], labels: Sequence[Offsets | None]
) -> list[Offsets | Answer] | None:
    """Return the answer whose box is checked, if the labels of all boxes are answers, as in `Fever: Y[ ] N[x]`."""
    answers: list[re.Match[str]] = []
    for label in labels:
        # the first label before a box is behind the finding
        answer = label and (_whole_answer(text, *label) or _last_answer(text, *label))
        if not answer:
            return None
        answers.append(answer)
    finding = strip(text, before[0], min(before[1], answers[0].start()), ":- ")
    if finding is None or not _is_finding(text[slice(*finding)]):
        return None
    checked = [(answer, box) for answer, box in zip(answers, boxes, strict=True) if box["checked"]]
    if len(checked) != 1:
        return [Answer(None, boxes[0].span(), (finding,), (finding[0], boxes[-1].end()))]
    ((answer, _),) = checked
    end = max(boxes[-1].end(), answers[-1].end())
    return [Answer(_kind(text, finding, answer), answer.span(), (finding,), (finding[0], end))]


def _last_answer(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the answer that is behind a finding and a colon."""
    colon = text.rfind(":", start, end)
    return None if colon < 0 else _whole_answer(text, colon + 1, end)


# --- signs


def _signs(text: str, start: int, end: int, signed: bool) -> list[Offsets | Answer]:
    """Return the items of a line with a sign each, such as `-fever +cough` or `?TIA`; empty for other lines."""
    signs: list[re.Match[str]] = []
    for sign in _SIGN.finditer(text, start, end):
        before = text[max(start, sign.start() - 40) : sign.start()].rstrip()
        in_list = signs or sign.start() == start or before.endswith((",", ";", ":", "("))
        is_name = _AFTER_NAME.match(text, sign.end(), end) or (before.endswith(":") and _TELLING.search(before))
        if sign[0] not in _LETTERS or (in_list and not is_name):
            signs.append(sign)
    kinds = [_SIGN_KINDS.get(sign[0].strip("()[] \ufe0f"), "negation") for sign in signs]
    begins = bool(signs) and signs[0].start() == start
    is_list = (signed and begins) or (len(signs) > 1 and (begins or None in kinds))
    if not is_list and not any(sign[0][0] not in "-+" for sign in signs):
        return []
    parts: list[Offsets | Answer] = []
    if first := strip(text, start, signs[0].start(), ":"):
        parts.append(first)
    for sign, kind, stop in zip(signs, kinds, [*(s.start() for s in signs[1:]), end], strict=True):
        after = (_AFTER_QUERY if kind == "speculation" else _AFTER_ITEM).search(text, sign.end(), stop)
        item = strip(text, sign.end(), after.start() if after else stop, ",")
        if item and kind is None and NEGATOR.search(text, *item):
            parts.append(item)
        elif item:
            sign_offsets = strip(text, *sign.span()) or sign.span()
            parts.append(Answer(kind, sign_offsets, (item,), (sign.start(), item[1])))
        if after and (rest := strip(text, after.start(), stop, ",;.)")):
            parts.append(rest)
    return parts


def _answers_behind(text: str, start: int, end: int, signed: bool) -> list[Offsets | Answer]:
    """Return the items of a line that all have an answer behind them: `Fever- Cough+`, `MI neg, PE pos`, `Edema 0`."""
    key = _KEY.match(text, start, end)
    place = key.end() if key else start
    items: list[re.Match[str]] = []
    while place < end and (item := _ANSWERED_ITEM.match(text, place, end)):
        if not _is_finding(item["item"]) or _TELLING.search(item["item"]):
            return []
        items.append(item)
        place = item.end()
    spans = [item.span(item.lastgroup or 0) for item in items]
    are_signs = all(item["sign"] for item in items)
    answers = [
        _whole_answer(text, *span) if are_signs or text[span[0] - 1 : span[1] + 1] != " - " else None for span in spans
    ]
    findings = [item.span("item") for item in items]
    kinds = [answer and _kind(text, finding, answer) for finding, answer in zip(findings, answers, strict=True)]
    is_list = any(kinds) if all(item["number"] for item in items) else len(items) > 1
    is_list = is_list or any(answer and answer.lastgroup == "unfilled" for answer in answers)
    if place < end or not (signed or is_list):
        return []
    parts: list[Offsets | Answer] = [(start, key.end())] if key else []
    for item, span, finding, kind in zip(items, spans, findings, kinds, strict=True):
        parts.append(Answer(kind, span, (finding,), item.span()))
    return parts


# --- tables


def _row(text: str, start: int, end: int, header: list[Offsets]) -> tuple[list[Offsets | Answer], list[Offsets]]:
    """Return the parts of a row of a table, and the header for the next row."""
    sentence = (start, end)
    is_wide = not re.search(r"[|\t]", text[start:end])
    cells: list[Offsets] = []
    place = start
    for mark in [*(_WIDE if is_wide else re.compile(r"[|\t]")).finditer(text, start, end), None]:
        stop = mark.start() if mark else end
        cells.append(strip(text, place, stop) or (place, place))
        place = mark.end() if mark else end
    if text[start] == "|":
        cells = cells[1:-1] if text[end - 1] == "|" else cells[1:]
    filled = [cell for cell in cells if cell[0] < cell[1]]
    if all(re.fullmatch(r":?-{2,}:?", text[slice(*cell)]) for cell in filled):  # the rule below a header
        return [Answer(None, sentence, (), sentence)], header
    answers = [_whole_answer(text, *cell) for cell in filled]
    names = [cell for cell in header if cell[0] < cell[1]]
    choices = [_whole_answer(text, *name) for name in header]
    if not any(choices) and len(names) == len(filled) > 1 and all(answers):  # findings above their answers
        both = (header[0][0], end)
        pairs: list[Offsets | Answer] = [
            Answer(_kind(text, name, answer), answer.span(), (name,), both)
            for name, answer in zip(names, answers, strict=True)
            if answer
        ]
        return pairs, header
    checks = [
        (choice, cell) for choice, cell in zip(choices, cells, strict=False) if _CHECK.fullmatch(text[slice(*cell)])
    ]
    if len(checks) == 1 and len(cells) <= len(header) and filled[0] == cells[0] and not is_wide:
        choice, checked = checks[0]
        if choice:
            return [Answer(_kind(text, cells[0], choice), checked, (cells[0],), sentence)], header
    if len(filled) > 1 and all(answers):  # "Yes | No", without a name of the first column
        return [Answer(None, sentence, (), sentence)], [(start, start), *filled] if filled[0] == cells[0] else cells
    chosen = [answer for answer in answers[1:] if answer]
    is_paired = (
        all(answers[1::2]) and not any(answers[::2]) and len(filled) == 2 * len(chosen)
    )  # "Fever | no | Rash | yes"
    is_same = bool(names) and not any(choices) and len({answer.lastgroup for answer in chosen}) == 1
    if (is_paired or ((len(chosen) == 1 or is_same) and not answers[0])) and filled[0] == cells[0]:
        parts: list[Offsets | Answer] = []
        for cell, answer in zip(filled[::2] if is_paired else filled[:1], chosen, strict=False):
            before, finding = _last_finding(text, *cell)
            if finding is None:
                return [], cells
            parts += filter(None, [before])
            kind = _kind(text, finding, answer)
            parts.append(Answer(kind, answer.span(), (finding,), (finding[0], answer.end())))
        rest = [cell for cell, answer in zip(filled[1:], answers[1:], strict=True) if not (answer or is_paired)]
        return parts + rest, header or cells
    if len(chosen) > 1:  # "Symptom | Yes | No"
        return [Answer(None, sentence, (), sentence)], cells
    if pairs := [pair for cell in filled for pair in _pairs(text, *cell)]:
        return pairs, []
    return [], cells


def _last_finding(text: str, start: int, end: int) -> tuple[Offsets | None, Offsets | None]:
    """Return the prose before the finding that a cell ends with, and the finding; None for what is not there."""
    for place in [start, *(mark.end() for mark in _BEFORE_FINDING.finditer(text, start, end))]:
        if not re.search(r"[.;?!]\s", text[place:end]) and _is_finding(text[place:end]):
            return strip(text, start, place, ";,"), strip(text, place, end, ":")
    return None, None
