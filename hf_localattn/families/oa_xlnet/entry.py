"""Entry of OA, orthogonal attention."""

from __future__ import annotations

import torch

from hf_localattn.families.family import Family, View
from hf_localattn.models import OaXLNetConfig, OaXLNetTokenizer


def sample_query(mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return `query_mask` (B, L), 1 at the second, third and fifth token of each row (if present)."""
    rank = mask.long().cumsum(-1)
    return {"query_mask": mask.long() * ((rank == 2) | (rank == 3) | (rank == 5))}


FAMILY = Family(
    config=OaXLNetConfig,
    tokenizer=OaXLNetTokenizer,
    example="Mira is [CUE] not the baker.",
    query="query_mask",
    query_advice="put [CUE] before each word of a cue, as in 'I do [CUE] not know', or give a pair with the query as"
    " one of its texts",
    local_map=View(
        is_available=lambda config: config.num_active_local_layers > 0,
        settings="any local_attention but none",
        title="orthogonal attention",
    ),
    sample_inputs=sample_query,
)
