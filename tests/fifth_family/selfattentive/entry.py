"""Entry of structured self-attentive embeddings."""

from hf_localattn.models.configuration_selfattentive import SelfAttentiveConfig

from hf_localattn.families import Family, View

FAMILY = Family(
    config=SelfAttentiveConfig,
    local_map=View(
        is_available=lambda config: True,
        settings="any fields",
        title="structured attention",
        matrix=lambda weights, mask: weights.double(),
        rows=lambda config: [f"hop {hop}" for hop in range(1, config.hops + 1)],
        row_label="hop",
    ),
)
