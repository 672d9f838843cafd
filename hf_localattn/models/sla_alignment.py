"""From a text's words and their heads to the tokens of one encoded sequence.

Plain lists in, plain lists out: what parsed the text and what encoded it is not known here. The encoding may hold the
text whole, cut or as one of its windows; everything is taken from the tokens that are there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

STRUCTURE = ("word_index", "dep_heads")
"""Inputs for each token that the tokenizer adds and the models read."""

NO_WORD = -1
"""`word_index` and `dep_heads` of special tokens and pads."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one text, numbered from 0; white space is none.

    Attributes:
        number: how many there are.
        heads: the number of each word's head, the root's its own; `None`: not parsed.
        starts, ends: character offsets [start, end) of each word. They cover everything in the text but white space.
            `None`: the text came as words, and the encoding knows which token is of which.
    """

    number: int
    heads: Sequence[int] | None = None
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None


def checked_heads(heads: Iterable[int], words: Sequence[str], row: str) -> Words:
    """The words of a text that came with ready-made heads.

    Args:
        heads: the number of each word's head, counted from 0; the root has its own number.
        words: the words that they belong to.
        row: what to call the row in an error.

    Raises:
        ValueError: not one head for each word, a head that is no word, or a cycle.
    """
    try:
        heads = [index(head) for head in heads]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{row} is no list of whole numbers ({error}): give the number of each word's head."
        ) from None
    if len(heads) != len(words):
        raise ValueError(f"{row} has {len(words)} words but {len(heads)} heads: give one head for each word.")
    for word, head in enumerate(heads):
        if not 0 <= head < len(heads):
            raise ValueError(
                f"{row}, word {word} ({words[word]!r}): the head {head} is none of its {len(heads)} words. Count them"
                " from 0 and give the root its own number (CoNLL-U counts from 1 and gives the root 0)."
            )
    rooted: set[int] = set()
    for word in range(len(heads)):
        path: set[int] = set()
        while word not in rooted and heads[word] != word:
            if word in path:
                raise ValueError(
                    f"{row}, word {word} ({words[word]!r}): its heads run in a cycle. Following the heads must end at"
                    " a root, whose head is its own number."
                )
            path.add(word)
            word = heads[word]
        rooted |= path
    return Words(len(heads), heads)


def align(
    sequence_ids: Sequence[int | None],
    offsets: Sequence[tuple[int, int]] | None,
    word_ids: Sequence[int | None] | None,
    segments: Sequence[Words],
) -> tuple[list[int], list[int]]:
    """Say of every token which word it belongs to, and where in this sequence the word's head begins.

    A token belongs to the word that holds its first character that is not white space, an empty one (a byte-level
    blank whose offsets were trimmed) to the word that begins there; one of white space alone to the word of the token
    before it, or to none where it comes first. A word without a token of its own, because a
    token that begins in an earlier word covers it whole (`can` + `not` under the token `cannot`), is one with that
    word; they take the head of the member nearest to the root, since any other could close a cycle.

    Args:
        sequence_ids: of each of the L tokens, the segment it is of: 0, 1, or `None` for special tokens and pads.
        offsets: (begin, end) of each token in the characters of its segment; not needed for words that were given.
        word_ids: of each token the number of its word; only for words that were given.
        segments: the words of the one or two segments.

    Returns:
        `word_index`: L word numbers, which count on through the second segment and close up over words that became
        one; `dep_heads`: L positions of the first token, present in this sequence, of the head. A root, and a word
        whose head is not in the sequence, has its own first token. Both are -1 at special tokens and pads. Words that
        were not parsed are all roots.
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
        shift += words.number
    return word_index, dep_heads


def _owners(
    offsets: Iterable[tuple[int, int]], starts: Sequence[int], ends: Sequence[int]
) -> tuple[list[int], dict[int, int]]:
    """The word of each token, and the words that have none of their own with the word whose token covers them."""
    owners: list[int] = []
    covered: dict[int, int] = {}
    owner = NO_WORD
    for begin, end in offsets:
        word = bisect_right(starts, begin) - 1
        if word < 0 or begin >= ends[word]:  # begins with white space, as byte-level tokens do
            word += 1
            if word == len(starts) or starts[word] >= end:  # and is nothing else
                owners.append(owner)
                continue
        owner = word
        owners.append(owner)
        if end > ends[word]:
            for other in range(word + 1, bisect_right(ends, end)):
                covered.setdefault(other, word)
    if covered:
        own = set(owners)
        covered = {word: owner for word, owner in covered.items() if word not in own}
    return owners, covered


def _heads(owners: Sequence[int], merged: dict[int, int], heads: Sequence[int] | None, begin: int) -> dict[int, int]:
    """Return for each word the position at which its head begins; `begin` is that of the first owner."""
    first: dict[int, int] = {}
    for position, word in enumerate(owners, begin):
        first.setdefault(word, position)
    first.pop(NO_WORD, None)
    if heads is None:
        return {**first, NO_WORD: NO_WORD}

    reach, tops = first, {}
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
        word, depth = heads[word], depth + 1
    return depth
