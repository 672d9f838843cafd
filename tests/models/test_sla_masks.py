"""Compare the masks of SLA, WLA and SG-Net with a breadth-first search on the graph of words, and with examples."""

import re
from contextlib import nullcontext

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from hf_localattn.installed.structure import check_structure
from hf_localattn.models.sla_baselines import ancestor_mask
from hf_localattn.models.sla_masks import syntax_tables, window_tables
from tests.reference import sla as reference

OPTIONS = {"threshold": st.integers(0, 5), "neighbor_window": st.integers(0, 2), "connect_roots": st.booleans()}
WINDOW = {"window_size": st.integers(0, 5)}
repeatable = settings(max_examples=60, deadline=None, derandomize=True)


def syntax_mask(*structure, **options):
    return syntax_tables(*structure, **options).rows(slice(None))


def window_mask(word_index, **options):
    return window_tables(word_index, **options).rows(slice(None))


@st.composite
def structures(draw):
    """One to three random forests between special tokens, as `(word_index, dep_heads)`. Some tokens are open as keys.

    Words have up to three sub-words, or none (a normalizer drops them, their number stays), and either end of a
    segment may be cut off.
    """
    word_index, head_word, words = [-1] * draw(st.integers(0, 2)), {}, draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 3))):
        numbers = range(words, words + draw(st.integers(1, 6)))
        order = draw(st.permutations(numbers))
        head_word |= {word: draw(st.sampled_from(order[: place + 1])) for place, word in enumerate(order)}
        tokens = [word for word in numbers for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2, 3])))]
        left, right = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        word_index += tokens[left : max(left, len(tokens) - right)] + [-1] * draw(st.integers(1, 2))
        words = numbers.stop
    if draw(st.booleans()):
        while word_index[-1:] == [-1]:
            word_index.pop()
    word_index, heads = structure(word_index, head_word)
    is_open = draw(st.sets(st.integers(0, len(word_index))))
    return [-2 - word if place in is_open and word >= 0 else word for place, word in enumerate(word_index)], heads


def structure(word_index, head_word):
    """Return `word_index` and the `dep_heads` for the words of a tree (a list or a dict of heads) that have tokens."""
    first = {word: word_index.index(word) for word in word_index}
    heads = [-1 if word == -1 else first.get(head_word[word], first[word]) for word in word_index]
    return word_index, heads


def batched(rows, side="right", length=0):
    """Batch rows as two tensors (B, L); left padding shifts the heads."""
    length = max([length, *(len(word_index) for word_index, _ in rows)])
    words, heads = torch.full((2, len(rows), length), -1)
    for row, (word_index, dep_heads) in enumerate(rows):
        start = length - len(word_index) if side == "left" else 0
        stop = start + len(word_index)
        words[row, start:stop] = torch.tensor(word_index)
        heads[row, start:stop] = torch.tensor([head if head == -1 else head + start for head in dep_heads])
    return words, heads


batches = st.builds(
    batched,
    st.lists(structures(), min_size=1, max_size=3),
    st.sampled_from(["left", "right"]),
    length=st.integers(1, 30),
)


@repeatable
@given(batches, st.just({}) | st.fixed_dictionaries(OPTIONS), st.just({}) | st.fixed_dictionaries(WINDOW))
def test_masks_equal_the_search(batch, options, window):
    rows = list(zip(*(tensor.tolist() for tensor in batch), strict=True))
    assert syntax_mask(*batch, **options).tolist() == [reference.syntax_mask(*row, **options) for row in rows]
    assert window_mask(batch[0], **window).tolist() == [reference.window_mask(words, **window) for words, _ in rows]
    expected = [reference.ancestor_mask(*row) for row in rows]
    for longest in ({}, {"max_length": batch[0].shape[1]}):
        assert ancestor_mask(*batch, **longest).tolist() == expected


def test_the_papers_sentence():
    """Figure 3: "fresh", "air" and "allow" may attend to "film", which is outside the window."""
    heads = {
        "In": "feels", "a": "way", "way": "In", ",": "feels", "the": "film", "film": "feels", "feels": "feels",
        "like": "feels", "a'": "breath", "breath": "like", "of": "breath", "fresh": "air", "air": "of",
        ",'": "feels", "but": "feels", "only": "to", "to": "feels", "those": "to", "that": "allow",
        "allow": "those", "it": "allow", "in": "allow", ".": "feels",
    }  # fmt: skip
    words = list(heads)
    number = {word: place for place, word in enumerate(words)}
    batch = batched([structure(list(range(len(words))), [number[head] for head in heads.values()])])

    def see(mask):
        return {word for word in words if mask[0, number[word], number["film"]]}

    # "air" is next to a comma whose head is "feels".
    assert see(syntax_mask(*batch, threshold=3)) == set(words) - {"fresh", "allow", "it"}
    assert see(syntax_mask(*batch, threshold=4)) == set(words)
    assert not see(window_mask(batch[0], window_size=5)) & {"fresh", "air", "allow"}
    assert {word for word in words if ancestor_mask(*batch)[0, number["fresh"], number[word]]} == {
        "fresh", "air", "of", "breath", "like", "feels",
    }  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 513])
def test_a_word_sees_ancestors_however_far_and_no_cycle_is_too_long(length):
    chain = [max(0, word - 1) for word in range(length)]
    batch = batched([structure(list(range(length)), chain)])
    check_structure(*batch)
    expected = torch.ones(length, length, dtype=torch.bool).tril()
    assert torch.equal(ancestor_mask(*batch, max_length=length)[0], expected)
    if length > 1:
        with pytest.raises(ValueError, match=r"row 0 at position .*cycle"):
            check_structure(*batched([structure(list(range(length)), [length - 1, *chain[1:]])]))


# [CLS] 0 1 1 2 [SEP] 3 4 [SEP] as the second row of two: word 1 is the root, with two tokens; word 4's head is 3.
WORDS = [-1, 0, 1, 1, 2, -1, 3, 4, -1]
HEADS = [-1, 2, 2, 2, 2, -1, 6, 6, -1]
MISTAKES = {
    "beyond the end": ({4: 99}, "head", 4),
    "before the start": ({4: -2}, "head", 4),
    "a special token": ({1: 5}, "head", 1),
    "a later sub-word": ({4: 3}, "head", 4),
    "a root's later sub-word": ({2: 3, 3: 3}, "head", 2),
    "sub-words that differ": ({3: 1}, "head", 3),
    "the other segment": ({7: 2}, "head", 7),
    "a cycle": ({1: 4, 4: 1}, "cycle", 1),
}


@pytest.mark.parametrize(("changes", "message", "position"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("shift", [0, 13])
def test_a_wrong_structure_is_refused_by_row_and_position(changes, message, position, shift):
    heads = [changes.get(place, head) for place, head in enumerate(HEADS)]
    # The first row is 13 tokens longer, and left padding shifts the second.
    long = structure(list(range(len(WORDS) + 13)), [0] * 22)
    words, dep_heads = batched([long, (WORDS, HEADS)], "left" if shift else "right")
    dep_heads[1, shift : shift + 9] = torch.tensor([head if head < 0 else head + shift for head in heads])
    with pytest.raises(ValueError, match=rf"row 1 at position {position + shift}\b.*{message}"):
        check_structure(words, dep_heads)


def test_shapes_that_differ_are_refused():
    words, heads = batched([(WORDS, HEADS)])
    for other in (heads[:, :-1], heads.repeat(2, 1), heads[0]):
        with pytest.raises(ValueError, match=re.escape(str(tuple(other.shape)))):
            check_structure(words, other)


@settings(repeatable, max_examples=150)
@given(structures(), st.data())
def test_passes_if_and_only_if_it_is_a_forest(example, data):
    words, heads = example
    tokens = [place for place, word in enumerate(words) if word != -1]
    for place in data.draw(st.lists(st.sampled_from(tokens), max_size=3)) if tokens else ():
        # Mostly changes whole words; otherwise nearly all errors would be tokens of one word that differ.
        changed = data.draw(st.sampled_from([tokens, tokens, [place]]))
        head = data.draw(st.sampled_from([*tokens, *tokens, *range(-1, len(words) + 1)]))
        heads = [head if other in changed and words[other] == words[place] else old for other, old in enumerate(heads)]
    is_forest = reference.is_structure(words, heads)
    with nullcontext() if is_forest else pytest.raises(ValueError, match=r"head|cycle"):
        check_structure(*batched([(words, heads)]))
