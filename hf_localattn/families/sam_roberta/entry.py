"""Entry of SAM, sequential attention."""

from __future__ import annotations

from hf_localattn.families.family import Family, View
from hf_localattn.models import SamRobertaConfig

FAMILY = Family(
    config=SamRobertaConfig,
    modules=("sam_baselines", "sam_entmax"),
    length_limit="its tam_max_length; for longer texts set a larger one, or tam_ffn=token",
    token_weights=View(
        is_available=lambda config: config.has_tam or config.pooling == "rba",
        settings="pooling=sam and use_tam=true, or with pooling=rba",
    ),
)
