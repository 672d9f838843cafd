"""Ablations and baselines of every family, as fields of its configuration; the contract holds for each."""

from itertools import product
from typing import Any, get_args

from hf_localattn.models.configuration_cool import BASELINES
from hf_localattn.models.configuration_local_attention import field_types
from hf_localattn.registry import FAMILIES


def choices(config_class: Any, field: str) -> tuple[str, ...]:
    """Return the values of a field that is annotated as `Literal`."""
    return get_args(field_types(config_class)[field])


INTERACTIONS = ("em", "emb", "c", "ca")

PLACED = ("outlook", "conv", *BASELINES)
"""Local encoders of COOL that stand below, above or beside its backbone."""

OUTLOOKERS = {
    "with convolutions": {},
    "without": {"use_conv": False},
    "average pooling": {"conv_pooling": "avg", "conv_kernel_sizes": [1, 2, 4]},
    "centered": {"conv_alignment": "same", "conv_kernel_sizes": [3, 7]},
    "shared heads": {"outlook_num_heads": 5, "outlook_kernel_size": 5},
    "joint softmax": {"outlook_softmax": "window", "mask_outside_window": True},
    "more layers": {"num_local_layers": 4, "num_ffn_layers": 2, "use_layer_norm": True},
    "no layers": {"num_local_layers": 0},
    "no biases": {"qkv_bias": False},
}
LOCAL_ENCODERS = [
    {"local_attention": "none"},
    {"local_attention": "deeper", "num_extra_layers": 1},
    *({"mode": mode, "local_attention": kind} for mode, kind in product(("g2l", "l2g", "g&l"), PLACED)),
    *({"mode": mode, "use_conv": False} for mode in ("g2l", "l2g", "g&l")),
    *({"mode": "g&l", "fusion": fusion} for fusion in ("sum", "gate")),
    {"local_attention": "dynamic_conv", "outlook_kernel_size": 5},
    {"local_attention": "gat", "graph_window": 2},
]

# Each of the paper's tables, and what they leave open.
SAM_ROWS = {
    **{pooling: {"pooling": pooling} for pooling in choices(FAMILIES["sam-roberta"].config, "pooling")},
    "-fam": {"use_fam": False},
    "-tam": {"use_tam": False},
    "tam+fam": {"attention_order": "tam_fam"},
    "delta": {"fam_threshold": 0.1},
    "learned": {"learn_fam_threshold": True},
    "token ffn": {"tam_ffn": "token"},
    "sum": {"bilstm_merge": "sum"},
    "no lstm": {"use_bilstm": False},
}
# Hidden layers wide enough that none falls silent as a whole.
SAM_SIZES = {"fam_reduction": 1, "tam_max_length": 20, "bilstm_hidden_size": 6, "disan_hidden_size": 5}

SIZES = {"oa-xlnet": {"oa_num_heads": 2}, "sam-roberta": SAM_SIZES}  # OA's heads are squares
"""Fields that all rows of a family have."""

MORE = {
    "cool": {**OUTLOOKERS, **{"-".join(map(str, fields.values())): fields for fields in LOCAL_ENCODERS}},
    "sla-bert": {
        **{kind: {"local_attention": kind} for kind in choices(FAMILIES["sla-bert"].config, "local_attention")},
        "three layers of sgnet": {"local_attention": "sgnet", "num_sgnet_layers": 3},
    },
    "oa-xlnet": {
        f"{interaction}-{sharing}": {"local_attention": interaction, "kv_sharing": sharing}
        for interaction, sharing in product(INTERACTIONS, ("trunk", "none", "all"))
    },
    "sam-roberta": SAM_ROWS,
}
"""Rows that the entries of the registry need not declare."""


def ablations_of(name: str) -> dict[str, dict[str, Any]]:
    """The rows that a family's entry declares, and those in `MORE`, each once."""
    more = MORE.get(name, {})
    declared = [fields for fields in FAMILIES[name].ablations if fields not in more.values()]
    rows = {" ".join(f"{field}={value}" for field, value in fields.items()): fields for fields in declared} | more
    return {row: {**SIZES.get(name, {}), **fields} for row, fields in rows.items()}
