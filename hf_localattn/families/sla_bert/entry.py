"""Entry of SLA, syntax-aware local attention."""

from __future__ import annotations

import torch

from hf_localattn.families.family import Family, View
from hf_localattn.models import SlaBertConfig, SlaBertTokenizer
from hf_localattn.models.fields_sla_bert import GATED


def sample_structure(mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return `word_index` and `dep_heads` (B, L) of a tree of words with one or two tokens each.

    The first and last tokens of a row are special tokens. All tokens may attend to the third word.
    """
    word_index, dep_heads = (torch.full(mask.shape, -1) for _ in range(2))
    for row, tokens in enumerate(mask.bool()):
        places = tokens.nonzero().flatten()
        places = places[1:-1] if len(places) > 2 else places[1:]
        words = (torch.arange(len(places)) * 2 + 1) // 3
        first = dict(reversed(list(zip(words.tolist(), places.tolist(), strict=True))))
        word_index[row, places] = torch.where(words == 2, -2 - words, words)
        dep_heads[row, places] = torch.tensor([first[word // 3] for word in words.tolist()], dtype=torch.long)
    return {"word_index": word_index, "dep_heads": dep_heads}


FAMILY = Family(
    config=SlaBertConfig,
    modules=("sla_baselines", "sla_distances"),
    tokenizer=SlaBertTokenizer,
    parse="dep_heads",
    local_map=View(
        is_available=lambda config: config.num_active_local_layers > 0,
        settings=f"local_attention={', '.join(GATED)} or sgnet",
        title="local attention",
        by_default=False,
    ),
    gates=View(
        is_available=lambda config: config.local_attention in GATED,
        settings=f"local_attention={' or '.join(GATED)}",
        layers=lambda config: config.sla_layer_indices,
    ),
    sample_inputs=sample_structure,
)
