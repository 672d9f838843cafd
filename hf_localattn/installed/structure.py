"""Checks of the syntactic structure that models of SLA read."""

from __future__ import annotations

import torch

from hf_localattn.models.sla_masks import first_tokens, segments_of, without_open_keys


def check_structure(word_index: torch.Tensor | None, dep_heads: torch.Tensor) -> None:
    """Raise `ValueError` if `dep_heads` do not form a forest. The message names the row and the position.

    Values are read only on the CPU and outside compiled code, since reading them would wait for a GPU. Without
    `word_index`, each token that has a head counts as a word.
    """
    if dep_heads.device.type != "cpu" or torch.compiler.is_compiling():
        return
    if word_index is None:
        positions = torch.arange(dep_heads.shape[-1]).expand_as(dep_heads)
        word_index = positions.masked_fill(dep_heads == -1, -1)
    if word_index.shape != dep_heads.shape:
        raise ValueError(
            f"`word_index` has shape {tuple(word_index.shape)} and `dep_heads` {tuple(dep_heads.shape)}; both must be "
            "(batch, length)."
        )
    word_index, _ = without_open_keys(word_index)
    is_word = word_index >= 0
    length = word_index.shape[-1]
    _complain(is_word & ((dep_heads < 0) | (dep_heads >= length)), dep_heads, f"outside the {length} tokens")
    heads = torch.where(is_word, dep_heads, 0)
    first = first_tokens(word_index)
    _complain(is_word & ~is_word.gather(-1, heads), dep_heads, "at a special token or padding")
    _complain(is_word & (first.gather(-1, heads) != heads), dep_heads, "not the first token of a word")
    _complain(is_word & (heads != heads.gather(-1, first)), dep_heads, "not that of the word's first token")
    segment = segments_of(word_index)
    _complain(is_word & (segment != segment.gather(-1, heads)), dep_heads, "in another segment")
    ancestors = heads
    for _ in range((length - 1).bit_length()):
        ancestors = ancestors.gather(-1, ancestors)
    _complain(is_word & (heads.gather(-1, ancestors) != ancestors), dep_heads, "on a path into a cycle")


def _complain(wrong: torch.Tensor, dep_heads: torch.Tensor, problem: str) -> None:
    if wrong.any():
        row, position = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"`dep_heads` of row {row} at position {position} is {dep_heads[row, position]}: this head is {problem}."
            " Give the position, in the same row, of the first token of the word's head; a root is its own head."
        )
