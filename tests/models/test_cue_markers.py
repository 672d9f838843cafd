"""Cue markers in texts and lists of words: the words that they mark, and the text to encode."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_localattn.models.cue_markers import CUE_MARKER, MARKERS, TYPED_MARKERS, is_marker, mark_cues
from hf_localattn.models.tokenization_oa_xlnet import read_cues

WORDS = ["neither", "a", "saint", "nor", "a", "sinner"]
NEITHER_NOR = [1, 0, 0, 1, 0, 0]


def cue_spans(text, read):
    """Return the characters [start, end) of the cue words of a text."""
    marked = "".join("x" if read.is_cue((place, place + 1), None) else " " for place in range(len(text)))
    return [match.span() for match in re.finditer("x+", marked)]


def cue_words(text, read):
    return [text[start:end] for start, end in cue_spans(text, read)]


def restored(read, offsets, word=None):
    return (offsets, word) if read.restored is None else read.restored(offsets, word)


def test_names():
    assert CUE_MARKER == "[CUE]"
    assert TYPED_MARKERS == {"affix": "[CUE:affix]", "single": "[CUE:single]", "multi": "[CUE:multi]"}
    assert all(map(is_marker, MARKERS))
    assert not any(map(is_marker, ["CUE", "[cue]", "[CUE] ", "[CUE:other]", "", "not"]))


def test_mark_cues():
    plain = ["[CUE]", "neither", "a", "saint", "[CUE]", "nor", "a", "sinner"]
    assert mark_cues(WORDS, NEITHER_NOR) == plain
    assert mark_cues(WORDS, NEITHER_NOR, "multi") == [word.replace("[CUE]", "[CUE:multi]") for word in plain]
    assert mark_cues(WORDS, [0] * 6, "single") == WORDS
    assert mark_cues([], []) == []


@pytest.mark.parametrize(
    ("cue", "kind", "text"),
    [
        ([1, 0], None, r"`cue` is \[1, 0\] for 6 words: give 0 or 1 for each"),
        ([2, 0, 0, 1, 0, 0], None, "give 0 or 1 for each"),
        (NEITHER_NOR, "prefix", "`cue_type` is 'prefix'; choose one of 'affix', 'single', 'multi', or None"),
    ],
)
def test_wrong_cues_are_refused(cue, kind, text):
    with pytest.raises(ValueError, match=text):
        mark_cues(WORDS, cue, kind)


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        ("I do [CUE] not know", ["not"]),
        ("I do [CUE:single] not know", ["not"]),
        ("[CUE] neither a saint [CUE] nor a sinner", ["neither", "nor"]),
        ("is [CUE:affix] infrequent.", ["infrequent"]),
        ("[CUE] not, he said", ["not"]),
        ("I [CUE] don't and [CUE] can\u2019t, [CUE] self-less-ly", ["don't", "can\u2019t", "self-less-ly"]),
        ("a [CUE] 'no' here", ["'no'"]),
        ("a [CUE] ... b", ["..."]),
        ("a [CUE] ..[CUE] b", ["..", "b"]),
        ("in[CUE]frequent", ["frequent"]),
        ("[CUE]\n\t na\u00efve", ["na\u00efve"]),
        ("[CUE] [CUE:affix] unhappy [CUE]", ["unhappy"]),
        ("he said no [CUE]", []),
        ("[CUE]", []),
        ("[CUE:other] not [cue] no", []),
        ("", []),
    ],
)
def test_the_word_after_a_marker_is_a_cue(text, cues):
    read = read_cues(text, "keep")
    assert cue_words(text, read) == cues
    assert read.has_marker == any(marker in text for marker in MARKERS)


MODES = [
    ("I do [CUE] not know", "I do[CUE] not know", "I do not know", "I do[CUE:single] not know"),
    ("[CUE:affix] infrequent", "[CUE] infrequent", "infrequent", "[CUE:affix] infrequent"),
    ("[CUE] no  [CUE]  nor", "[CUE] no[CUE]  nor", "no  nor", "[CUE:multi] no[CUE:multi]  nor"),
    ("a[CUE] b", "a[CUE] b", "a b", "a[CUE:single] b"),
    ("in[CUE]frequent", "in[CUE]frequent", "infrequent", "in[CUE:single]frequent"),
    ("a [CUE] [CUE:affix] b", "a[CUE][CUE] b", "a b", "a[CUE:single][CUE:affix] b"),
    ("no [CUE]", "no[CUE]", "no ", "no[CUE:single]"),
    ("as it is", "as it is", "as it is", "as it is"),
]


@pytest.mark.parametrize(("text", "keep", "drop", "typed"), MODES, ids=[text for text, *_ in MODES])
def test_what_is_encoded(text, keep, drop, typed):
    found = [read_cues(text, mode).encoded for mode in ("keep", "drop", "typed")]
    assert found == [keep, drop, typed]


@given(
    st.lists(st.sampled_from([*MARKERS, " ", "  ", "\n", "no", "not,", "\u00e9t\u00e9", "\U0001f44d"])).map("".join),
    st.sampled_from(["keep", "drop", "typed"]),
)
def test_every_character_knows_where_it_is_from(text, mode):
    """All characters except markers and spaces next to them are kept in order."""
    read = read_cues(text, mode)
    places = [restored(read, (place, place + 1))[0] for place in range(len(read.encoded))]
    assert places == sorted(places)
    for character, (begin, end) in zip(read.encoded, places, strict=True):
        assert text[begin:end] == character or text[begin:end] in MARKERS
    kept = "".join(text[begin:end] for begin, end in places if end - begin == 1)
    assert _without_markers(kept) == _without_markers(text)
    if places:
        assert restored(read, (0, len(read.encoded)))[0] == (places[0][0], places[-1][1])
    assert all(word.strip() == word for word in cue_words(text, read))


def _without_markers(text):
    for marker in MARKERS:
        text = text.replace(marker, "")
    return "".join(text.split())


@pytest.mark.parametrize(
    ("words", "cues"),
    [
        (["I", "do", "[CUE]", "not", "know"], {3}),
        (["[CUE:multi]", "neither", "a", "[CUE:multi]", "nor"], {1, 4}),
        (["[CUE]", "", " ", "[CUE]", "not,"], {4}),
        (["not", "[CUE]"], set()),
        (["not"], set()),
        ([], set()),
    ],
)
def test_the_next_word_of_a_list(words, cues):
    read = read_cues(words, "drop")
    assert {number for number in range(len(words)) if read.is_cue((0, 1), number)} == cues
    assert read.encoded == [word for word in words if not is_marker(word)]
    for place, word in enumerate(read.encoded):
        offsets, number = restored(read, (0, len(word)), place)
        assert (words[number], offsets) == (word, (0, len(word)))
    assert read_cues(words, "keep").encoded == ["[CUE]" if is_marker(word) else word for word in words]


def test_words_keep_their_typed_markers():
    read = read_cues(["[CUE]", "neither", "[CUE]", "nor", "[CUE:affix]", "un"], "typed")
    assert read.encoded == ["[CUE:multi]", "neither", "[CUE:multi]", "nor", "[CUE:affix]", "un"]
    assert read.restored((0, len("[CUE:multi]")), 2) == ((0, len("[CUE]")), 2)
    assert read_cues(["[CUE]", "not"], "typed").encoded == ["[CUE:single]", "not"]


@pytest.mark.parametrize("word", ["[CUE]not", " [CUE]", "in[CUE:affix]"])
def test_a_marker_inside_a_word_is_refused(word):
    with pytest.raises(ValueError, match=r"Word 1 \(.*contains a cue marker and other characters.*separate word"):
        read_cues(["do", word], "drop")


@pytest.mark.parametrize("mode", ["keep", "drop", "typed"])
@pytest.mark.parametrize("filler", [" ", "a", "[CUE]", "[CUE] ", ".", "-"])
def test_long_texts_take_linear_time(mode, filler):
    begun = time.perf_counter()
    read_cues("[CUE] no " + filler * 60_000 + "no [CUE]", mode)
    assert time.perf_counter() - begun < 3
