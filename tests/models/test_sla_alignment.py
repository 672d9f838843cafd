"""Compare the alignment of tokens, words and heads with loops over characters."""

import itertools

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


def test_a_word_whose_end_was_cut_off_is_not_covered():
    """The token reaches into the second word, whose last letter was truncated with its token."""
    words = Words(3, [2, 1, 2], [0, 3, 5], [3, 5, 7])
    assert align([0, 0], [(0, 4), (5, 7)], None, [words]) == ([0, 2], [1, 1])


@given(st.text(alphabet="ab \t\n\x1c\u00a0\u2003\u3000\u200b", max_size=20))
def test_white_space_splits_as_python_does(text):
    words = whitespace_words(text)
    assert [text[start:end] for start, end in zip(words.starts, words.ends, strict=True)] == text.split()


@given(st.integers(1, 9).flatmap(forests))
def test_forests_are_accepted(heads):
    assert checked_heads(heads, ["w"] * len(heads), "row 0").heads == heads
