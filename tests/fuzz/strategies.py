"""What properties are tested on: values of all kinds, files that are nearly right, and how many of them."""

import json
import os
import re

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from hf_localattn.errors import CheckpointError

LONG = int(os.environ.get("FUZZ_EXAMPLES", "10000"))

settings.register_profile(
    "suite",
    derandomize=True,  # with `-k` instead of a file name, pytest finds the failures of a whole run
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)

long = pytest.param(LONG, marks=[pytest.mark.slow(reason="10,000 examples take minutes"), pytest.mark.timeout(3600)])
sizes = pytest.mark.parametrize("examples", [25, long], ids=["suite", "long"])


def check(holds, strategy, examples):
    settings(settings.get_profile("suite"), max_examples=examples)(given(strategy)(holds))()


def outcome(call, *places):
    """Return the result of a call; None if it refuses its input by an error with one of the names of some places."""
    try:
        return call()
    except (ValueError, OSError, CheckpointError) as error:
        # A subclass of ValueError is the raw error of a decoder, which does not know its file.
        is_raw = isinstance(error, ValueError) and type(error) is not ValueError
        if is_raw or not any(one in str(error) for one in places):
            raise AssertionError(f"{error!r} is raw, or names none of {places}") from error


TEXTS = ("", " ", "\0", "\n", "[CUE]", "nan", "1e-5", "null", "-1", "../..", "\u2028", "😀", "\ud800", "x" * 300)
BIG = [10**6, 2**31, 2**63, -(2**63) - 1, 10**18, 10**400, -(10**400)]
ODD_FLOATS = [float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324, 1e-9]
scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(-3, 12), st.sampled_from(BIG), st.floats(0, 1)),
    *(st.sampled_from(ODD_FLOATS), st.sampled_from([*TEXTS, "9" * 5000]), st.text(max_size=6)),
)

objects = st.sampled_from([(), (3,), {"a": {}}, [[None]], b"x", object(), int, 1j, range(3)])
anything = st.one_of(scalars, st.lists(st.integers(-2, 6), max_size=4), st.lists(scalars, max_size=3), objects)


def often(*strategies):
    """Draw from one of them, a strategy that is there several times so much more often (`one_of` takes it once)."""
    return st.sampled_from(strategies).flatmap(lambda strategy: strategy)


NUMBERS = ("0", "1", "2", "-1", "5", "99", "1.0", "1e3", "1e999", "nan", "٢", "²", "9" * 20, "9" * 400, "9" * 5000)
WORDS = ("not", "O", "B-x", "A", "a b", "é", "😀", "***", "_", "true", "null", "1-2", "1.1", "negation", "W", "M")
ODD = ("", " ", "\x85", "\xa0", "a\u2028b", "-", "'", '"', "#", "[CUE]", "-DOCSTART-", "0 1", "x" * 140_000)
JSON = ("[]", "[1]", '["a", "b"]', "[[1]]", "{}", '{"a": 1}', "[" * 300 + "]" * 300, '"\\ud800"', "NaN", '"x"', "true")
MARKS = ("\t", "\n", "\n\n", ",", ":", "]", "}", "&", "<", "<a>", "</a>", "&x;", "<!--", "]]>", "[" * 3000)
DEEP = ("<a>" * 900 + "</a>" * 900, '{"a":' * 99 + "1" + "}" * 99, "<!DOCTYPE a [<!ENTITY x 'y'>]>", "\0", "\ufeff")
parts = often(*map(st.sampled_from, (NUMBERS, WORDS, ODD, JSON, (*MARKS, *DEEP))))
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
        new = draw(often(parts, parts, parts, st.sampled_from(["", *tokens])))
        quoted = tokens[place].startswith('"') and draw(st.booleans())
        tokens[place] = json.dumps(new, ensure_ascii=draw(st.booleans())) if quoted else new
    content = "".join(tokens).encode("utf-8", "surrogatepass")
    return content if draw(st.integers(0, 4)) else _damaged(draw, content)


def _damaged(draw, content):
    at, lines = draw(st.integers(0, len(content))), content.split(b"\n")
    line, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    text = content.decode("utf-8", "replace")
    ways = [
        content[:at],
        content[:at] + draw(st.sampled_from(BYTES)) + content[at + draw(st.integers(0, 8)) :],
        b"\n".join([*lines[:line], lines[other], *lines[line:]]),
        b"\n".join(lines[:line] + lines[line + 1 :]),
        text.encode(draw(st.sampled_from(ENCODINGS)), "replace"),
        text.replace("\n", draw(st.sampled_from(ENDS))).encode(),
    ]
    return draw(st.sampled_from(ways))
