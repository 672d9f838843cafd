"""Alignment of the words of a text and their heads with the tokens of an encoded sequence.

The functions work on plain lists and know neither the parser nor the tokenizer. The sequence may be the whole text, a
truncated text or one window of it; results refer only to tokens of the sequence.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import index
from random import Random

NO_WORD = -1
"""Value of `word_index` and `dep_heads` at special tokens and padding."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of one text, which cover it except for white space."""

    count: int
    heads: Sequence[int] | None = None  # from 0; a root is its own head. None if the text was not parsed
    # Characters [start, end). None if the text was given as words; the encoding then knows the word of each token.
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None


def checked_heads(heads: Iterable[int], words: Sequence[str], row: str) -> Words:
    """Return words with the heads that the caller provides. Raise `ValueError` if the heads do not form trees."""
    try:
        heads = [index(head) for head in heads]
    except TypeError:
        raise ValueError(f"{row} is {str(heads)[:60]}: give the index of each word's head.") from None
    if len(heads) != len(words):
        raise ValueError(f"{row} has {len(words)} words but {len(heads)} heads: give one head for each word.")
    for word, head in enumerate(heads):
        if not 0 <= head < len(heads):
            raise ValueError(
                f"{row}, word {word} ({words[word]!r}): the head {head} is not one of its {len(heads)} words. Count"
                " words from 0 and give a root its own index (CoNLL-U counts from 1 and gives a root 0)."
            )
    ancestors = heads
    for _ in range(len(heads).bit_length()):  # each round doubles the number of steps upwards
        ancestors = [ancestors[ancestor] for ancestor in ancestors]
    for word, ancestor in enumerate(ancestors):
        if heads[ancestor] != ancestor:
            raise ValueError(f"{row}, word {word} ({words[word]!r}): its heads lead into a cycle, not to a root.")
    return Words(len(heads), heads)


def shuffled(words: Words, seed: str) -> Words:
    """Permute the words of parsed trees at random: the trees keep their shape, with the words in other places."""
    assert words.heads is not None
    places = list(range(words.count))
    Random(seed).shuffle(places)
    heads = [0] * words.count
    for word, head in enumerate(words.heads):
        heads[places[word]] = places[head]
    return replace(words, heads=heads)


def align(
    sequence_ids: Sequence[int | None],
    offsets: Sequence[tuple[int, int]] | None,
    word_ids: Sequence[int | None] | None,
    segments: Sequence[Words],
) -> tuple[list[int], list[int]]:
    """Return the word of each token, and the position of the first token of the word's head.

    A token belongs to the word of its first character that is not white space. Two kinds of tokens have no such
    character:

    * An empty token (a byte-level blank whose offsets were trimmed) belongs to the word that begins there.
    * A token of white space belongs to the word of the token before it, or to no word if it is the first.

    One token may cover several words, as `cannot` covers `can` and `not`. Words without a token of their own are
    merged with the word in which the token begins. The merged word takes the head of the member nearest to the root,
    since any other head could close a cycle.

    Segments, offsets and words of tokens are those of an encoding; words are only needed if texts were given as words,
    offsets otherwise. Returns `word_index` and `dep_heads` of `SlaBertTokenizer`. Merged words count as one, and
    without a parse all words are roots.
    """
    word_index = [NO_WORD] * len(sequence_ids)
    dep_heads = [NO_WORD] * len(sequence_ids)
    shift = 0
    for segment, words in enumerate(segments):
        size = sequence_ids.count(segment)
        if size:
            begin = sequence_ids.index(segment)
            place = slice(begin, begin + size)
            merged: dict[int, int] = {}
            if words.starts is None or words.ends is None:
                assert word_ids is not None
                owners = [NO_WORD if word is None else word for word in word_ids[place]]
            else:
                assert offsets is not None
                owners, merged = _owners(offsets[place], words.starts, words.ends)
            heads = _heads(owners, merged, words.heads, begin)
            dep_heads[place] = [heads[word] for word in owners]
            if merged:
                absorbed = sorted(merged)
                owners = [word - bisect_left(absorbed, word) if word != NO_WORD else word for word in owners]
            word_index[place] = [word + shift if word != NO_WORD else word for word in owners]
        shift += words.count
    return word_index, dep_heads


def _owners(
    offsets: Iterable[tuple[int, int]], starts: Sequence[int], ends: Sequence[int]
) -> tuple[list[int], dict[int, int]]:
    """Return the word of each token, and for each word without a token the word whose token covers it."""
    owners: list[int] = []
    covered: dict[int, int] = {}
    owner = NO_WORD
    for begin, end in offsets:
        word = bisect_right(starts, begin) - 1
        if word < 0 or begin >= ends[word]:  # the token begins with white space, as byte-level tokens do
            word += 1
            if word == len(starts) or starts[word] >= end:  # and has no other characters
                owners.append(owner)
                continue
        owner = word
        owners.append(owner)
        if end > ends[word]:
            for other in range(word + 1, bisect_right(ends, end)):
                covered.setdefault(other, word)
    if covered:
        with_token = set(owners)
        covered = {word: owner for word, owner in covered.items() if word not in with_token}
    return owners, covered


def _heads(owners: Sequence[int], merged: dict[int, int], heads: Sequence[int] | None, begin: int) -> dict[int, int]:
    """Return the position of the head of each word; `begin` is the position of the first token in `owners`."""
    first: dict[int, int] = {}
    for position, word in enumerate(owners, begin):
        first.setdefault(word, position)
    first.pop(NO_WORD, None)
    if heads is None:
        return {**first, NO_WORD: NO_WORD}

    reach = first
    tops: dict[int, int] = {}
    if merged:
        reach = first | {word: first[owner] for word, owner in merged.items()}
        groups: dict[int, list[int]] = {}
        for word, owner in merged.items():
            groups.setdefault(owner, [owner]).append(word)
        tops = {owner: min(group, key=lambda word: _depth(word, heads)) for owner, group in groups.items()}
    places = {word: reach.get(heads[tops.get(word, word)], position) for word, position in first.items()}
    return {**places, NO_WORD: NO_WORD}


def _depth(word: int, heads: Sequence[int]) -> int:
    depth = 0
    while heads[word] != word:
        word = heads[word]
        depth = depth + 1
    return depth
