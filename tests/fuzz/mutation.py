"""Files that are nearly right: a valid one with a few of its words, values, lines or bytes replaced."""

import json
import re

import hypothesis.strategies as st

NUMBERS = ("0", "1", "2", "-1", "5", "99", "1.0", "1e3", "1e999", "nan", "٢", "²", "9" * 20, "9" * 400, "9" * 5000)
WORDS = ("not", "O", "B-x", "A", "a b", "é", "😀", "***", "_", "true", "null", "1-2", "1.1", "negation", "W", "M")
ODD = ("", " ", "\x85", "\xa0", "a\u2028b", "-", "'", '"', "#", "[CUE]", "-DOCSTART-", "0 1", "x" * 140_000)
JSON = ("[]", "[1]", '["a", "b"]', "[[1]]", "{}", '{"a": 1}', "[" * 300 + "]" * 300, '"\\ud800"', "NaN", '"x"', "true")
MARKS = ("\t", "\n", "\n\n", ",", ":", "]", "}", "&", "<", "<a>", "</a>", "&x;", "<!--", "]]>", "[" * 3000)
DEEP = ("<a>" * 900 + "</a>" * 900, '{"a":' * 99 + "1" + "}" * 99, "<!DOCTYPE a [<!ENTITY x 'y'>]>", "\0", "\ufeff")
PARTS = (NUMBERS, WORDS, ODD, JSON, (*MARKS, *DEEP))
"""Texts to stand in a file of any format, by what they are."""

BYTES = (b"\xff", b"\xed\xa0\x80", b"\r", b"\xe2\x80\xa8", b"<?xml version='1.0' encoding='utf-16'?>")
ENDS = ("\r\n", "\r", "\n\n", "\u2028", "", "\n \n")
ENCODINGS = ("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp1252")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|</?\w+|[\w.*-]+|\s|[^\w\s]')
"""A text of JSON, the beginning of a tag, a word, or a single other character."""


@st.composite
def changed(draw, *valid):
    """Draw the bytes of one of some files, with up to three other words or values, or with wrong bytes."""
    text = draw(st.sampled_from(valid))
    tokens = TOKEN.findall(text)
    for _ in range(draw(st.integers(1, 3)) if tokens else 0):
        # most tokens are separators: choose a value, as often as not
        values = [place for place, token in enumerate(tokens) if len(token) > 1 or token.isalnum()] or [0]
        place = draw(st.sampled_from(values) if draw(st.booleans()) else st.integers(0, len(tokens) - 1))
        what = draw(st.sampled_from(["part", "part", "part", "own", "none", "twice"]))
        if what == "part":
            new = draw(st.sampled_from(draw(st.sampled_from(PARTS))))
            quoted = tokens[place].startswith('"') and draw(st.booleans())
            tokens[place] = json.dumps(new, ensure_ascii=draw(st.booleans())) if quoted else new
        else:
            own = draw(st.sampled_from(tokens))
            tokens[place] = {"own": own, "none": "", "twice": tokens[place] * 2}[what]
    content = "".join(tokens).encode("utf-8", "surrogatepass")
    return content if draw(st.integers(0, 4)) else _damaged(draw, content)


def _damaged(draw, content):
    at, lines = draw(st.integers(0, len(content))), content.split(b"\n")
    first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    text = content.decode("utf-8", "replace")
    return draw(
        st.sampled_from(
            [
                content[:at],
                content[:at] + draw(st.sampled_from(BYTES)) + content[at + draw(st.integers(0, 8)) :],
                content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :],
                b"\n".join([*lines[:first], lines[second], *lines[first:]]),
                b"\n".join(lines[:first] + lines[first + 1 :]),
                text.encode(draw(st.sampled_from(ENCODINGS)), "replace"),
                text.replace("\n", draw(st.sampled_from(ENDS))).encode(),
                content * draw(st.integers(0, 3)),
            ]
        )
    )
