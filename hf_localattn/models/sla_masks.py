"""Masks of the tokens that are near each other in a dependency forest, made on the device from two integers a token.

Source: Improving BERT with Syntax-aware Local Attention (Li et al.), section 3.1, equations 2 and 3, and section 4.3
for pairs; SG-Net (Zhang et al., 2020) for the ancestors.

Shapes: B batch, L tokens. Everywhere

* `word_index` (B, L) is the number of each token's word, which counts on through the second segment; -1 at special
  tokens and pads. A run of -1 between words separates segments.
* `dep_heads` (B, L) is the position of the first token of the head of each token's word; a root has its own. -1 at
  special tokens and pads.

The tokens of a word share its row and its column. Special tokens, and pads, which the attention mask takes out later,
see all and are seen by all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch.nn import functional


def syntax_mask(
    word_index: torch.Tensor,
    dep_heads: torch.Tensor,
    *,
    threshold: int = 3,
    neighbor_window: int = 1,
    connect_roots: bool = False,
) -> torch.Tensor:
    """Allow a token those within reach of its word or of that word's neighbors (equations 2 and 3).

    Two words are within m edges of each other iff going up a edges from one and b from the other leads to the same
    word, with a + b <= m: no shortest paths and no powers of matrices are needed.

    Args:
        word_index, dep_heads: (B, L), see above.
        threshold: m, the edges that reach; counted from the nearest of the word and its neighbors.
        neighbor_window: words on either side that are neighbors: word numbers that far apart in the same segment.
        connect_roots: take the roots of a segment's trees (its sentences) as joined pairwise by edges.

    Returns:
        (B, L, L), [query, key], True where the query may attend to the key. Not symmetric: the neighbors are the
        query's. All tokens of another segment are allowed.
    """
    first = first_tokens(word_index)
    heads = _heads(word_index, dep_heads, first)
    ancestors = [first]
    for _ in range(threshold + 1):
        ancestors.append(heads.gather(-1, ancestors[-1]))
    reach = _within(ancestors, threshold)
    if connect_roots:
        # Whatever lies higher than the threshold cannot be reached over a root.
        depth = torch.stack([up != down for up, down in pairwise(ancestors)]).sum(0)
        reach |= _rows(depth) + 1 + _columns(depth) <= threshold
    nearby = reach
    for neighbor, exists in _neighbors(word_index, neighbor_window):
        nearby = nearby | (reach.gather(1, _rows(neighbor).expand_as(reach)) & _rows(exists))
    return nearby | _is_open(word_index) | _in_other_segment(word_index)


def window_mask(word_index: torch.Tensor, *, window_size: int = 3) -> torch.Tensor:
    """Allow a token those whose words are at most `window_size` words away (WLA, section 4.1).

    Returns:
        (B, L, L), as from `syntax_mask`.
    """
    near = (_rows(word_index) - _columns(word_index)).abs() <= window_size
    return near | _is_open(word_index) | _in_other_segment(word_index)


def ancestor_mask(word_index: torch.Tensor, dep_heads: torch.Tensor, *, max_length: int | None = None) -> torch.Tensor:
    """Allow a token its own word and the ancestors of that word up to the root (SGNet).

    Args:
        word_index, dep_heads: (B, L), see above.
        max_length: the most tokens there can be, which bounds how deep a tree is; these L when absent.

    Returns:
        (B, L, L), as from `syntax_mask`; but of another segment nothing is allowed.
    """
    first = first_tokens(word_index)
    heads = _heads(word_index, dep_heads, first)
    seen = _rows(first) == _columns(first)
    # Each round doubles how far up is seen: from a word, and from the one as far up as that went.
    for _ in range(((max_length or word_index.shape[-1]) - 1).bit_length()):
        seen = seen | seen.gather(1, _rows(heads).expand_as(seen))
        heads = heads.gather(-1, heads)
    return seen | _is_open(word_index)


def first_tokens(word_index: torch.Tensor) -> torch.Tensor:
    """Return the position of the first token of each token's word, and their own of special tokens: (B, L)."""
    positions = torch.arange(word_index.shape[-1], device=word_index.device).expand_as(word_index)
    begins = (word_index < 0) | (word_index != _shifted(word_index))
    number = begins.cumsum(-1) - 1
    # One position adds up for each beginning. (`cummax` would do, if ONNX had it.)
    return torch.zeros_like(number).scatter_add(-1, number, torch.where(begins, positions, 0)).gather(-1, number)


def shifted_heads(dep_heads: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Put right the heads of rows that were padded on the left, with 0, by who does not know that they are positions.

    Args:
        dep_heads: (B, L), where pads have -1, or 0 if the heads were not shifted by them.
        tokens: (B, L), True at real tokens.

    Returns:
        (B, L), -1 at pads.
    """
    before = (tokens.long().cumsum(-1) == 0).sum(-1, keepdim=True)
    unshifted = ~tokens[:, :1] & (dep_heads[:, :1] == 0)
    shifted = torch.where(unshifted & (dep_heads >= 0), dep_heads + before, dep_heads)
    return shifted.masked_fill(~tokens, -1)


def check_structure(word_index: torch.Tensor | None, dep_heads: torch.Tensor) -> None:
    """Raise `ValueError` where `dep_heads` are not those of a forest; it names the row and the position.

    It waits for the device, so it is for the CPU, where what the heads say comes from. Without `word_index` every
    token that has a head counts as a word.
    """
    if word_index is None:
        positions = torch.arange(dep_heads.shape[-1]).expand_as(dep_heads)
        word_index = positions.masked_fill(dep_heads == -1, -1)
    if word_index.shape != dep_heads.shape:
        raise ValueError(
            f"`word_index` has shape {tuple(word_index.shape)} and `dep_heads` {tuple(dep_heads.shape)}; both must be "
            "(batch, length)."
        )
    is_word, length = word_index >= 0, word_index.shape[-1]
    _complain(is_word & ((dep_heads < 0) | (dep_heads >= length)), dep_heads, f"outside the {length} tokens")
    heads = torch.where(is_word, dep_heads, 0)
    first = first_tokens(word_index)
    _complain(is_word & ~is_word.gather(-1, heads), dep_heads, "at a special token or a pad")
    _complain(is_word & (first.gather(-1, heads) != heads), dep_heads, "not the first token of a word")
    _complain(is_word & (heads != heads.gather(-1, first)), dep_heads, "another than that of the word's first token")
    segment = _segments(word_index)
    _complain(is_word & (segment != segment.gather(-1, heads)), dep_heads, "in another segment")
    ancestors = heads
    for _ in range((length - 1).bit_length()):
        ancestors = ancestors.gather(-1, ancestors)
    _complain(is_word & (heads.gather(-1, ancestors) != ancestors), dep_heads, "on the way into a cycle")


def _complain(wrong: torch.Tensor, dep_heads: torch.Tensor, what: str) -> None:
    if wrong.any():
        row, position = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"`dep_heads` of row {row} at position {position} is {dep_heads[row, position]}: this head is {what}. Give"
            " the position, in the same row, of the first token of the word's head, and a root its own."
        )


def _heads(word_index: torch.Tensor, dep_heads: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """The heads of words, and special tokens as their own. Nothing points outside, which would stop a GPU for good."""
    return torch.where(word_index >= 0, dep_heads.clamp(0, dep_heads.shape[-1] - 1), first)


def _within(ancestors: list[torch.Tensor], edges: int) -> torch.Tensor:
    """Tell which tokens' words are at most that many edges apart, from their ancestors (B, L) by generation."""
    reach = torch.zeros((), dtype=torch.bool, device=ancestors[0].device)
    # Meeting ever higher costs two edges more each time, and above its root a tree goes on for ever (the root is its
    # own head): whoever meets within the limit does so with exactly as many edges as it has, or with one fewer.
    for total in range(max(edges - 1, 0), edges + 1):
        for up in range(total + 1):
            reach = reach | (_rows(ancestors[up]) == _columns(ancestors[total - up]))
    return reach


def _neighbors(word_index: torch.Tensor, window: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Positions (B, L) of a token of each neighbor of each token's word, and whether there is that neighbor."""
    last = word_index.shape[-1] - 1
    for place, exists in _words_before(word_index, window):
        yield place, exists
    # Those after are those before in the reversed text.
    for place, exists in _words_before(word_index.flip(-1), window):
        yield last - place.flip(-1), exists.flip(-1)


def _words_before(word_index: torch.Tensor, window: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    first = first_tokens(word_index)
    place = first
    for _ in range(window):
        before = (place - 1).clamp(min=0)
        place = torch.where(word_index.gather(-1, before) >= 0, first.gather(-1, before), place)
        apart = (word_index - word_index.gather(-1, place)).abs()
        yield place, (apart > 0) & (apart <= window)


def _segments(word_index: torch.Tensor) -> torch.Tensor:
    """Number each token's segment (B, L); of special tokens and pads it says nothing."""
    return ((word_index >= 0) & (_shifted(word_index) < 0)).cumsum(-1)


def _in_other_segment(word_index: torch.Tensor) -> torch.Tensor:
    segments = _segments(word_index)
    return _rows(segments) != _columns(segments)


def _is_open(word_index: torch.Tensor) -> torch.Tensor:
    is_special = word_index < 0
    return _rows(is_special) | _columns(is_special)


def _shifted(word_index: torch.Tensor) -> torch.Tensor:
    """Shift values by one position to the right; the first one becomes that of a special token."""
    return functional.pad(word_index, (1, 0), value=-1)[..., :-1]


def _rows(values: torch.Tensor) -> torch.Tensor:
    return values.unsqueeze(-1)


def _columns(values: torch.Tensor) -> torch.Tensor:
    return values.unsqueeze(-2)
