"""Entry of SAM, sequential attention."""

from __future__ import annotations

from hf_localattn.families.family import Family, View
from hf_localattn.models import SamRobertaConfig

FAMILY = Family(
    config=SamRobertaConfig,
    length_limit="its tam_max_length; for longer texts set a larger one, or tam_ffn=token",
    token_weights=View(
        is_available=lambda config: config.has_tam or config.pooling == "rba",
        settings="pooling=sam and use_tam=true, or with pooling=rba",
    ),
    effects=lambda config: {
        ("use_bilstm", "use_fam", "use_tam"): config.pooling == "sam",
        ("bilstm_hidden_size", "num_bilstm_layers", "bilstm_merge"): config.has_bilstm,
        ("fam_reduction", "fam_threshold", "learn_fam_threshold"): config.pooling == "sam" and config.use_fam,
        ("tam_ffn", "tam_hidden_size", "tam_softmax"): config.has_tam,
        ("tam_max_length",): config.max_tokens is not None,
        ("attention_order",): config.has_tam and config.use_fam,
        ("disan_hidden_size",): config.pooling == "disan",
    },
    # With width 1, a ReLU network may be dead from the start.
    tiny_fields={"bilstm_hidden_size": 16, "fam_reduction": 2, "tam_hidden_size": 9, "dropout": 0.0},
    ablations=(
        {"num_bilstm_layers": 1},
        *({name: False} for name in ("use_bilstm", "use_fam", "use_tam")),
        {"tam_ffn": "token"},
        {"tam_softmax": "entmax15"},
        {"attention_order": "tam_fam"},
        *({"pooling": name} for name in ("none", "rb", "rba", "disan")),
    ),
)
