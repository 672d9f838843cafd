"""Files that are nearly right: a valid one with a few things done to its values, its layout or its bytes."""

import copy
import csv
import io
import json
from itertools import chain
from xml.etree import ElementTree

import hypothesis.strategies as st

from tests.fuzz.values import TEXTS, json_values, often

NUMBERS = ("0", "1", "2", "-1", "5", "99", "1.0", "1e3", "1e999", "nan", "٢", "²", "9" * 20, "9" * 400, "9" * 5000)
WORDS = (
    "not",
    "O",
    "B-x",
    "A",
    "a b",
    "é",
    "😀",
    "***",
    "_",
    "true",
    "1-2",
    "1.1",
    "negation",
    "W",
    "M",
    "-DOCSTART-",
    "0 1",
)
ODD = ("", " ", "\x85", "\xa0", "a\u2028b", "-", "'", '"', "#", "[CUE]", "x" * 140_000)
LISTS = ("[]", "[1]", '["a", "b"]', "[[1]]", "{}", "[" * 300 + "]" * 300, '["\\ud800"]', "[" + "9" * 5000 + "]")
"""Texts to stand in a table, in an element or in a row: numbers, words, odd ones, and what is read as json."""

SNIPPETS = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\r", b"\n\n", b"\t", b" ", b"9" * 5000),
    *(
        b'"',
        b",",
        b"[",
        b"]",
        b"}",
        b":",
        b"&",
        b"<",
        b"<a>",
        b"</a>",
        b"&x;",
        b"<!--",
        b"]]>",
        b"\\ud800",
        b"null",
        b"NaN",
    ),
    *(b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"<?xml version='1.0' encoding='utf-16'?>", b"x" * 140_000, "١٢".encode()),
    *(
        b"[" * 3000,
        b"[" * 150 + b"]" * 150,
        b"<a>" * 3000,
        b"<a>" * 900 + b"</a>" * 900,
        b'{"a":' * 99 + b"1" + b"}" * 99,
    ),
)
"""Bytes that mean something in one of the formats, or in none."""


def nearly(valid, changed):
    """Draw the bytes of a file: mostly with other values, else with bytes that are wrong."""
    return often(changed, changed, changed, changed, mutated(valid), changed.flatmap(mutated))


@st.composite
def mutated(draw, valid):
    """Draw the bytes of a file: those of `valid` after one or two changes."""
    for _ in range(draw(st.integers(1, 2))):
        valid = draw(st.sampled_from(CHANGES))(draw, valid)
    return valid


def json_changes(valid, most=2, lines=False):
    """Draw the bytes of a .json file, or of a .jsonl: a value of `valid` is another one, or has another name."""
    places = list(_places(valid))
    places += [place for place in places if not isinstance(_at(valid, place), list | dict)] * 2

    @st.composite
    def changed(draw):
        content = json.loads(json.dumps(valid))
        for path in draw(st.lists(st.sampled_from(places), max_size=most)):
            _change(draw, content, path)
        ascii_only = draw(st.booleans())
        parts = content if lines and isinstance(content, list) else [content]
        text = "\n".join(json.dumps(part, ensure_ascii=ascii_only) for part in parts)
        return text.encode("utf-8", "surrogatepass")

    return changed()


def table_changes(valid, separator):
    """Draw the bytes of a table of which some cells, rows or columns are others."""
    rows = [line.split(separator) for line in valid.decode().split("\n")]

    @st.composite
    def changed(draw):
        table = [list(row) for row in rows]
        for _ in range(draw(st.integers(1, 3))):
            _change_table(draw, table)
        if separator != ",":
            return "\n".join(map(separator.join, table)).encode()
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(table)
        return buffer.getvalue().encode()

    return changed()


def xml_changes(valid, root=None):
    """Draw the bytes of an XML file of which some elements and attributes are others.

    Args:
        valid: with one root, unless `root` is a name to have around it.
        root: is there for the changes alone.
    """
    text = f"<{root}>{valid.decode()}</{root}>" if root else valid.decode()

    @st.composite
    def changed(draw):
        tree = ElementTree.fromstring(text)
        for _ in range(draw(st.integers(1, 3))):
            _change_element(draw, tree)
        content = ElementTree.tostring(tree, encoding="unicode").replace("\0", " ").replace("\x1c", " ")
        return (content[len(root) + 2 : -len(root) - 3] if root else content).encode()

    return changed()


def _places(value, path=()):
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from _places(one, (*path, key))


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def _change(draw, content, path):
    *above, last = path
    try:
        for key in above:
            content = content[key]
        what = draw(st.sampled_from(["value", "value", "value", "gone", "twice", "name"]))
        if what == "value":
            content[last] = _other(draw, content[last])
        elif what == "gone":
            del content[last]
        elif what == "twice" and isinstance(content, list):
            content.insert(0, content[last])
        elif isinstance(content, dict):
            content[draw(st.sampled_from(TEXTS) | st.text(max_size=4))] = content.pop(last)
    except (KeyError, IndexError, TypeError):
        pass  # an earlier change has taken the place away


def _text(draw, old, more=()):
    """A text to stand for another one, as often as not of its kind."""
    is_number = old is not None and old.strip("-.").isdecimal()
    kinds = [
        NUMBERS if is_number else (*ODD, *more),
        *(NUMBERS, WORDS, (*ODD, *more), LISTS)[draw(st.integers(0, 3)) :][:1],
    ]
    return draw(st.sampled_from(draw(st.sampled_from(kinds))))


def _other(draw, value):
    """A value to stand for another one, as often as not of its type."""
    if draw(st.booleans()):
        return draw(json_values)
    if type(value) is int:
        return draw(st.integers(-3, 60) | st.sampled_from([2**63, -(2**63) - 1, 10**400, 1.0, True, "1", "9" * 5000]))
    if isinstance(value, list):
        return draw(st.lists(st.sampled_from([*value, None, 1, "x", []]), max_size=4))
    return _text(draw, str(value), ("\ud800", "\ud800x", "\0"))


def _change_table(draw, table):
    number, column = draw(st.integers(0, len(table) - 1)), draw(st.integers(0, max(map(len, table))))
    chosen = [table[number]] if draw(st.integers(0, 2)) else table
    what = draw(st.sampled_from(["cell", "cell", "cell", "cell", "row", "blank", "delete", "double", "columns"]))
    if what == "row":
        table.insert(number, list(table[draw(st.integers(0, len(table) - 1))]))
    elif what == "blank":
        table.insert(number, [])
    elif what == "delete" and len(table) > 1:
        del table[number]
    elif what == "cell":
        old = "".join(table[number][column : column + 1])
        new = _text(draw, old) if draw(st.booleans()) else draw(st.sampled_from([*chain.from_iterable(table), ""]))
        for row in chosen:
            row[column : column + 1] = [new] * (column < len(row))
    else:
        for row in chosen:
            row[column : column + 1] = row[column : column + 1] * (2 if what == "double" else 0)


def _change_element(draw, tree):
    elements = list(tree.iter())
    one = elements[draw(st.integers(0, len(elements) - 1))]
    other = elements[draw(st.integers(0, len(elements) - 1))]
    what = draw(
        st.sampled_from(["attribute", "attribute", "attribute", "text", "tag", "delete", "copy", "gone", "deep"])
    )
    if what == "attribute" and one.attrib:
        name = draw(st.sampled_from(sorted(one.attrib)))
        one.set(name, _text(draw, one.get(name)))
    elif what == "gone" and one.attrib:
        del one.attrib[draw(st.sampled_from(sorted(one.attrib)))]
    elif what == "text":
        one.text = _text(draw, one.text)
    elif what == "tag":
        one.tag = other.tag
    elif what == "delete" and other in list(one):
        one.remove(other)
    elif what == "delete" and len(one):
        one.remove(one[draw(st.integers(0, len(one) - 1))])
    elif what == "copy":
        one.insert(0, copy.deepcopy(other))
    elif what == "deep":
        for _ in range(draw(st.sampled_from([3, 90, 200]))):
            one = ElementTree.SubElement(one, other.tag)


def _place(draw, content):
    return draw(st.integers(0, len(content)))


def _flip(draw, content):
    at = _place(draw, content)
    return content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]


def _cut(draw, content):
    return content[: _place(draw, content)]


def _insert(draw, content):
    at = _place(draw, content)
    return content[:at] + draw(st.sampled_from(SNIPPETS)) + content[at + draw(st.integers(0, 8)) :]


def _lines(draw, content):
    lines = content.split(b"\n")
    at, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    change = draw(st.sampled_from(["delete", "double", "move", "only"]))
    if change == "only":
        return lines[at]
    one = lines.pop(at)
    if change != "delete":
        lines[other:other] = [one] * (2 if change == "double" else 1)
    return b"\n".join(lines)


def _encode(draw, content):
    text = content.decode("utf-8", "replace")
    return text.encode(draw(st.sampled_from(["utf-16", "utf-32", "latin-1", "utf-8-sig", "cp1252"])), "replace")


def _line_ends(draw, content):
    return content.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"\n\n", b"\xe2\x80\xa8", b"", b"\n \n"])))


def _repeat(draw, content):
    return content * draw(st.integers(0, 3))


CHANGES = (_flip, _cut, _insert, _lines, _encode, _line_ends, _repeat)
