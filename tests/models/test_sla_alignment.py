"""Compare the alignment of tokens, words and heads with loops over characters."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.models.sla_alignment import Words, align, checked_heads
from hf_localattn.models.sla_parser import whitespace_words
from tests.reference import sla as reference


def spans(cuts):
    return list(itertools.pairwise(cuts))


@st.composite
def forests(draw, number):
    """Draw heads without a cycle: in some order, the head of each word comes before it, or the word is a root."""
    order = draw(st.permutations(range(number)))
    heads = [0] * number
    for place, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, place))]
    return heads


@st.composite
def texts(draw):
    """Draw a text, its words, their heads, and the tokens of one window: spans of the text, some of them missing."""
    text = draw(st.text(alphabet="ab文 \n", max_size=14))
    cut = draw(st.sets(st.integers(0, len(text))))
    blank = [place for place in range(len(text)) if text[place].isspace()]
    edges = sorted({0, len(text)} | cut | set(blank) | {place + 1 for place in blank})
    words = [(begin, end) for begin, end in spans(edges) if not text[begin:end].isspace()]
    heads = draw(forests(len(words)))
    tokens = spans(sorted({0, len(text)} | draw(st.sets(st.integers(0, len(text))))))
    tokens = [token for token in tokens if draw(st.integers(0, 5))]
    # Some overlap, like byte-level tokens that end within a character.
    tokens = [(begin, min(end + (draw(st.integers(0, 5)) == 0), len(text))) for begin, end in tokens]
    first, last = sorted((draw(st.integers(0, len(tokens))), draw(st.integers(0, len(tokens)))))
    return text, words, heads, tokens[first:last]


def depth(word, heads):
    return 0 if heads[word] == word else 1 + depth(heads[word], heads)


def naive(text, words, heads, tokens):
    """Return (index of the word, position of the head's first token) of each token, relative to the first token."""
    owners = []
    for begin, end in tokens:
        seen = [place for place in range(begin, end) if not text[place].isspace()]
        holding = [word for word, (start, stop) in enumerate(words) if seen and start <= seen[0] < stop]
        owners.append(holding[0] if holding else owners[-1] if owners else -1)
    group = {}
    for word, (start, stop) in enumerate(words):
        covering = [
            owner for owner, (begin, end) in zip(owners, tokens, strict=True) if begin <= start and stop <= end
        ]
        group[word] = covering[0] if word not in owners and covering and covering[0] != -1 else word
    result = []
    for owner in owners:
        if owner == -1:
            result.append((-1, -1))
            continue
        members = [word for word in group if group[word] == owner]
        top = sorted(members, key=lambda word: (depth(word, heads), word))[0]
        head = group[heads[top]]
        gone = sum(group[word] != word for word in range(owner))
        result.append((owner - gone, owners.index(head if head in owners else owner)))
    return result


def aligned(segments, left=0):
    """Call `align` with special tokens and `left` padding tokens; also return the start of each segment."""
    sequence_ids, offsets, begins = [None] * (left + 1), [(0, 0)] * (left + 1), []
    for number, (*_, tokens) in enumerate(segments):
        begins.append(len(sequence_ids))
        sequence_ids += [number] * len(tokens) + [None]
        offsets += [*tokens, (0, 0)]
    words = [
        Words(len(words), heads, [start for start, _ in words], [end for _, end in words])
        for _, words, heads, _ in segments
    ]
    return align(sequence_ids, offsets, None, words), begins


@settings(max_examples=300, deadline=None)
@given(st.lists(texts(), min_size=1, max_size=2), st.integers(0, 3))
def test_equals_the_loop_over_characters(segments, left):
    (word_index, dep_heads), begins = aligned(segments, left)
    expected = [(-1, -1)] * len(word_index)
    shift = 0
    for begin, segment in zip(begins, segments, strict=True):
        for place, (word, head) in enumerate(naive(*segment), begin):
            expected[place] = (word + shift, head + begin) if word != -1 else (-1, -1)
        shift += len(segment[1])
    assert list(zip(word_index, dep_heads, strict=True)) == expected
    assert reference.is_structure(word_index, dep_heads)


@pytest.mark.parametrize(
    ("heads", "starts", "ends", "offsets", "expected"),
    [
        # In `I cannot go`, merging `can` and `not` leaves no gap in the indices: `go` is the next word.
        ([3, 3, 3, 3], [0, 2, 5, 9], [1, 5, 8, 11], [(0, 1), (2, 8), (9, 11)], ([0, 1, 2], [2, 2, 2])),
        # The head of `not` is `go`, and that of `go` is `can`: with the head of `not` there would be a cycle.
        ([0, 2, 0], [0, 3, 7], [3, 6, 9], [(0, 6), (7, 9)], ([0, 1], [0, 0])),
        # The token reaches into the second word, whose last letter was truncated with its token: it is not covered.
        ([2, 1, 2], [0, 3, 5], [3, 5, 7], [(0, 4), (5, 7)], ([0, 2], [1, 1])),
    ],
    ids=["merged", "no cycle", "cut"],
)
def test_words_under_one_token(heads, starts, ends, offsets, expected):
    assert align([0] * len(offsets), offsets, None, [Words(len(heads), heads, starts, ends)]) == expected


def test_given_words_keep_their_numbers():
    sequence_ids, word_ids = [None, 0, 0, 0, None, 1, 1, None], [None, 0, 0, 2, None, 0, 1, None]
    word_index, dep_heads = align(sequence_ids, None, word_ids, [Words(3, [1, 1, 1]), Words(2, [0, 0])])
    assert word_index == [-1, 0, 0, 2, -1, 3, 4, -1]
    assert dep_heads == [-1, 1, 1, 3, -1, 5, 5, -1]


@given(st.text(alphabet="ab \t\n\x1c\u00a0\u2003\u3000\u200b", max_size=20))
def test_white_space_splits_as_python_does(text):
    """Such words have numbers, but no heads."""
    words = whitespace_words(text)
    spans = list(zip(words.starts, words.ends, strict=True))
    assert [text[start:end] for start, end in spans] == text.split()
    assert align([0] * len(spans), spans, None, [words])[0] == list(range(len(spans)))


@given(st.integers(1, 9).flatmap(forests))
def test_forests_are_accepted(heads):
    assert checked_heads(heads, ["w"] * len(heads), "row 0").heads == heads


@pytest.mark.parametrize(
    ("heads", "words", "text"),
    [
        ([0], ["a", "b"], "row 7 .* 1 heads"),
        ([0, 2], ["a", "b"], r"row 7, word 1 \('b'\): the head 2"),
        ([-1, 0], ["a", "b"], r"row 7, word 0 \('a'\): the head -1"),
        ([1, 2, 1], ["a", "b", "c"], r"row 7, word 0 \('a'\).* cycle"),
    ],
)
def test_what_is_no_forest_is_refused(heads, words, text):
    with pytest.raises(ValueError, match=text):
        checked_heads(heads, words, "row 7")
