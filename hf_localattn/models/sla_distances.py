"""SLA with a soft threshold, or with limits between the texts of a pair. Neither is in the paper.

Shapes: B batch, L tokens. `word_index` and `dep_heads` (B, L) are as in sla_masks.py.
"""

from typing import Any

import torch
from transformers import PreTrainedModel

from .configuration_sla_bert import SlaBertConfig
from .modeling_sla_bert import *  # noqa: F403  # hands on the models
from .modeling_sla_bert import LOCAL_MASKS
from .sla_masks import first_tokens, limited_rows, segments_of, syntax_tables, without_open_keys
from .sla_self_attention import prepared_mask


def masks_by_distance(
    config: SlaBertConfig, input_ids: torch.Tensor | None, word_index: torch.Tensor, dep_heads: torch.Tensor
) -> list[torch.Tensor]:
    """Return masks (B, L, L), [query, key], of tokens at most 0, 1, ... `syntax_threshold` edges apart (equation 2).

    With `pair_attention="shared_words"`, the distance between words i and j of two texts is the smallest
    `D(i, a) + dist(b, j)` over all words a and b that are equal and are in the texts of i and j.
    """

    def near(edges: int, words: torch.Tensor, neighbors: int) -> torch.Tensor:
        tables = syntax_tables(
            words, dep_heads, threshold=edges, neighbor_window=neighbors, connect_roots=config.connect_roots
        )
        return tables.rows(slice(None))

    counts = range(config.syntax_threshold + 1)
    masks = [near(edges, word_index, config.neighbor_window) for edges in counts]
    if config.pair_attention == "all":
        return masks
    if input_ids is None:
        raise ValueError("`pair_attention='shared_words'` compares words: give `input_ids`, not `inputs_embeds`.")
    words, is_open_key = without_open_keys(word_index)
    segments = segments_of(words).masked_fill(words < 0, -1)
    has_words = (segments >= 0).unsqueeze(2) & (segments >= 0).unsqueeze(1)
    is_within = segments.unsqueeze(2) == segments.unsqueeze(1)
    is_across = has_words & ~is_within
    shared = (equal_words(input_ids, words) & is_across).float()
    to_shared = [(near(edges, words, config.neighbor_window) & is_within).float() @ shared for edges in counts]
    from_shared = [(near(edges, words, 0) & is_within).float() for edges in counts]
    for edges in counts:
        paths = sum(to_shared[first] @ from_shared[edges - first] for first in range(edges + 1))
        masks[edges] = masks[edges] & (~is_across | (paths > 0) | is_open_key.unsqueeze(1))
    return masks


def equal_words(input_ids: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Return True (B, L, L) for pairs of tokens whose words have the same tokens in the same order."""
    first = first_tokens(words)
    places = torch.arange(words.shape[1], device=words.device) - first
    is_same_word = (first.unsqueeze(2) == first.unsqueeze(1)).float()
    agree = (input_ids.unsqueeze(2) == input_ids.unsqueeze(1)) & (places.unsqueeze(2) == places.unsqueeze(1))
    agreements = is_same_word @ agree.float() @ is_same_word
    lengths = is_same_word.sum(-1)
    return (agreements == lengths.unsqueeze(2)) & (agreements == lengths.unsqueeze(1))


def local_mask(
    config: SlaBertConfig,
    backbone: PreTrainedModel,
    input_ids: torch.Tensor | None,
    tokens: torch.Tensor | None,
    **structure: torch.Tensor,
) -> Any:
    """Return the mask of local attention, or for "soft" the distances (B, 1, L, L), -1 at keys that are padding."""
    masks = masks_by_distance(config, input_ids, **structure)
    if config.local_attention != "soft":
        allowed = limited_rows(lambda rows: masks[-1][:, rows], tokens)(slice(None))
        return prepared_mask(allowed, backbone.config, backbone.dtype)
    if backbone.config._attn_implementation == "flex_attention":
        raise ValueError(
            '`local_attention="soft"` adds to the scores: set `attn_implementation` to "sdpa" or "eager".'
        )
    distances = torch.stack(masks).logical_not().sum(0)
    allowed = limited_rows(lambda rows: torch.ones_like(masks[0][:, rows]), tokens)(slice(None))
    return distances.masked_fill(~allowed, -1).unsqueeze(1)


LOCAL_MASKS["distances"] = local_mask
