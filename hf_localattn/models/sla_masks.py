"""Attention masks from dependency trees, computed on the device from two integers per token.

Source: Improving BERT with Syntax-aware Local Attention (Li et al.), section 3.1, equations 2 and 3, and section 4.3
for pairs.

Shapes: B batch, L tokens. All functions read

* `word_index` (B, L): the index of each token's word; the second segment continues the count. -1 at special tokens and
  padding. A run of -1 between words separates segments. At tokens that all tokens may attend to (`open_punctuation` of
  SlaBertTokenizer), it is -2 - index instead.
* `dep_heads` (B, L): the position of the first token of the word's head; a root points at its own first token. -1 at
  special tokens and padding.

All tokens of a word have the same row and the same column in a mask. Special tokens and padding attend to all tokens
and all tokens attend to them; the attention mask excludes padding later.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import torch
from torch.nn import functional

MaskRows = Callable[[slice], torch.Tensor]
"""Function that computes rows of a mask: from a slice of queries to a boolean mask (B, rows, L)."""


class MaskTables(NamedTuple):
    """Integers per token from which any part of a mask is computed.

    Args:
        segments: (B, L), twice the number of each token's segment, plus 1 at tokens that all tokens may attend to; -1
            at special tokens, -2 at padding after `without_padding`.
        generations: (B, G, L), 32 bits. For "syntax": the first token of each token's word, of its head, and so on up
            to `near` edges, and with connected roots the depth. For "window": the index of the word.
        reach: (B, R, L), for each query one token of its own word and of each neighbor. R is 0 for "window".
        near: Largest distance, in edges or in words.
    """

    segments: torch.Tensor
    generations: torch.Tensor
    reach: torch.Tensor
    near: int

    def without_padding(self, tokens: torch.Tensor | None) -> Self:
        """Return tables that distinguish padding, False in `tokens` (B, L), from special tokens."""
        return self if tokens is None else self._replace(segments=torch.where(tokens, self.segments, -2))

    def rows(self, which: slice) -> torch.Tensor:
        """Compute the rows of the mask for a slice of R queries: (B, R, L), True where they may attend to keys."""
        of_row = _rows(self.segments[:, which])
        of_column = _columns(self.segments)
        generations = self.generations.unbind(1)
        allowed = (of_row < 0) | (of_column < 0) | (of_column & 1 == 1) | (of_row >> 1 != of_column >> 1)
        if not self.reach.shape[1]:
            words = generations[0]
            return allowed | ((_rows(words[:, which]) - _columns(words)).abs() <= self.near)
        for words in self.reach[..., which].unbind(1):
            ancestors = [generation.gather(-1, words) for generation in generations]
            allowed = allowed | _within(ancestors, generations, self.near)
            if len(generations) > self.near + 1:
                allowed = allowed | (_rows(ancestors[-1]) + 1 + _columns(generations[-1]) <= self.near)
        return allowed


def syntax_tables(
    word_index: torch.Tensor,
    dep_heads: torch.Tensor,
    *,
    threshold: int = 3,
    neighbor_window: int = 1,
    connect_roots: bool = False,
) -> MaskTables:
    """Let tokens attend to words that are near their own word or its neighbors in the tree (equations 2 and 3).

    Two words are within m edges of each other iff going up a edges from one and b edges from the other leads to the
    same word, for some a + b <= m. This needs no shortest paths and no matrix powers.

    The mask is not symmetric: only the query's neighbors count, as in equations 2 and 4. (The sentence before equation
    3 says the transpose.) All tokens of the other segment are allowed.

    Args:
        word_index: (B, L), see above.
        dep_heads: (B, L), see above.
        threshold (*optional*, defaults to 3): Largest distance in edges from the word or from the nearest of its
            neighbors, m of equation 3.
        neighbor_window (*optional*, defaults to 1): Number of neighbors on each side, in the same segment.
        connect_roots (*optional*, defaults to False): If True, edges connect all roots of a segment, one per sentence.
    """
    word_index, is_open_key = without_open_keys(word_index)
    first = first_tokens(word_index)
    heads = heads_of(word_index, dep_heads, first)
    ancestors = [first]
    for _ in range(threshold + 1):
        ancestors.append(heads.gather(-1, ancestors[-1]))
    generations = ancestors[:-1]
    if connect_roots:
        # Words deeper than the threshold reach nothing through a root, so their exact depth does not matter.
        generations.append(torch.stack([up != down for up, down in pairwise(ancestors)]).sum(0))
    # A query reaches what its own word and the neighbors reach. In place of a missing neighbor is the word itself.
    reach = [first]
    for neighbor, exists in _neighbors(word_index, neighbor_window):
        reach.append(torch.where(exists, neighbor, first))
    # 32 bits are compared faster than 64.
    segments = _coded_segments(word_index, is_open_key)
    return MaskTables(segments, torch.stack(generations, 1).int(), torch.stack(reach, 1), threshold)


def window_tables(word_index: torch.Tensor, *, window_size: int = 3) -> MaskTables:
    """Let tokens attend to words at most `window_size` words away (WLA, section 4.1)."""
    word_index, is_open_key = without_open_keys(word_index)
    words = word_index.unsqueeze(1)
    return MaskTables(_coded_segments(word_index, is_open_key), words.int(), words[:, :0], window_size)


def limited_rows(rows: MaskRows, tokens: torch.Tensor | None) -> MaskRows:
    """Remove padding, False in `tokens` (B, L), from the keys of mask rows. Tokens see themselves: no row is empty."""
    if tokens is None:
        return rows
    positions = torch.arange(tokens.shape[-1], device=tokens.device)
    return lambda which: (rows(which) & _columns(tokens)) | (_rows(positions[which]) == positions)


def without_open_keys(word_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of words (B, L), at least -1, and True at tokens that all tokens may attend to (B, L)."""
    is_open_key = word_index < -1
    return torch.where(is_open_key, -2 - word_index, word_index), is_open_key


def first_tokens(word_index: torch.Tensor) -> torch.Tensor:
    """Return the position (B, L) of the first token of each token's word; a special token counts as a word."""
    positions = torch.arange(word_index.shape[-1], device=word_index.device).expand_as(word_index)
    begins = (word_index < 0) | (word_index != _shifted(word_index))
    index = begins.cumsum(-1) - 1
    # Only one position is added for each word. (`cummax` would be simpler, but ONNX lacks it.)
    return torch.zeros_like(index).scatter_add(-1, index, torch.where(begins, positions, 0)).gather(-1, index)


def shifted_heads(dep_heads: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Fix `dep_heads` (B, L) that were padded on the left with 0, by code that does not shift positions.

    Padding becomes -1. `tokens` (B, L) is True at real tokens.
    """
    before = (tokens.long().cumsum(-1) == 0).sum(-1, keepdim=True)
    unshifted = ~tokens[:, :1] & (dep_heads[:, :1] == 0)
    shifted = torch.where(unshifted & (dep_heads >= 0), dep_heads + before, dep_heads)
    return shifted.masked_fill(~tokens, -1)


def heads_of(word_index: torch.Tensor, dep_heads: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Return the heads of words; special tokens are their own heads.

    Heads are clamped, since an index out of range would make the process's GPU unusable.
    """
    return torch.where(word_index >= 0, dep_heads.clamp(0, dep_heads.shape[-1] - 1), first)


def _within(rows: Sequence[torch.Tensor], columns: Sequence[torch.Tensor], edges: int) -> torch.Tensor:
    """Return True (B, R, L) for words at most `edges` edges apart, from their ancestors (B, R) and (B, L)."""
    reach = torch.zeros((), dtype=torch.bool, device=rows[0].device)
    # Words that meet at an ancestor also meet one level higher, with two more edges (a root is its own head). So words
    # that meet with fewer edges also meet with exactly `edges` or `edges - 1`.
    for total in range(max(edges - 1, 0), edges + 1):
        for up in range(total + 1):
            reach = reach | (_rows(rows[up]) == _columns(columns[total - up]))
    return reach


def _neighbors(word_index: torch.Tensor, window: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield for each neighbor the position (B, L) of one of its tokens, and True where the neighbor exists."""
    last = word_index.shape[-1] - 1
    for place, exists in _words_before(word_index, window):
        yield place, exists
    # The words after a word come before it in the reversed text.
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


def segments_of(word_index: torch.Tensor) -> torch.Tensor:
    """Number each token's segment (B, L). Values at special tokens and padding have no meaning."""
    return ((word_index >= 0) & (_shifted(word_index) < 0)).cumsum(-1)


def _coded_segments(word_index: torch.Tensor, is_open_key: torch.Tensor) -> torch.Tensor:
    """Return the segments (B, L) of `MaskTables`, in 32 bits."""
    return torch.where(word_index >= 0, 2 * segments_of(word_index) + is_open_key, -1).int()


def _shifted(word_index: torch.Tensor) -> torch.Tensor:
    """Shift values one position to the right; the first value becomes -1."""
    return functional.pad(word_index, (1, 0), value=-1)[..., :-1]


def _rows(values: torch.Tensor) -> torch.Tensor:
    return values.unsqueeze(-1)


def _columns(values: torch.Tensor) -> torch.Tensor:
    return values.unsqueeze(-2)
