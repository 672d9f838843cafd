"""Facts about COOL for tests."""

from __future__ import annotations

from itertools import cycle

from hf_localattn.families.facts import Facts, Fields
from hf_localattn.models.fields_cool import BASELINES

PLACED = ("conv", *BASELINES)
"""Local encoders that stand above the backbone, and here below it or beside it."""

OUTLOOKERS: dict[str, Fields] = {
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
LOCAL_ENCODERS: list[Fields] = [
    {"local_attention": "deeper", "num_extra_layers": 1},
    *({"mode": mode, "local_attention": kind} for mode, kind in zip(cycle(("l2g", "g&l")), PLACED, strict=False)),
    *({"mode": "g&l", "fusion": fusion} for fusion in ("sum", "gate")),
    {"local_attention": "dynamic_conv", "outlook_kernel_size": 5},
    {"local_attention": "gat", "graph_window": 2},
    *({"mode": mode, "encoder_states": [0, -1]} for mode in ("l2g", "g&l")),
    {"fusion": "gate", "encoder_states": [0, -1]},
]
H, LINEAR = 768, 768 * 768 + 768

FACTS = Facts(
    tiny_fields={"conv_filters": 5, "classifier_dropout": 0.0},
    rows={**OUTLOOKERS, **{"-".join(map(str, fields.values())): fields for fields in LOCAL_ENCODERS}},
    starts=[
        ({"use_conv": False, "initializer_range": 0.05}, "local_encoder.*weight", lambda weight: 0.05),
        ({"local_attention": "gat"}, "_vector", lambda weight: (2 / (2 * weight.shape[1] + 1)) ** 0.5),
        ({"local_attention": "hgt"}, r"layers.*\.(attention|message)$", lambda weight: weight.shape[1] ** -0.5),
        ({"local_attention": "hgt"}, "prior", lambda weight: 1.0),
    ],
    new_parameters=[
        ({"local_attention": "none"}, 0),
        ({"local_attention": "deeper"}, 3 * 7_087_872),
        ({"local_attention": "conv"}, 100 * (3 + 4 + 5) * H + 300),
        ({"local_attention": "dynamic_conv"}, 3 * (3 * LINEAR + H * 3 * 12)),
        ({"local_attention": "visual_outlook"}, 3 * (2 + 81 * 2 + 2 + 2)),
        ({"local_attention": "rgcn"}, 3 * (LINEAR + H * H)),
        ({"local_attention": "gat"}, 3 * (H * H + 3 * H)),
        ({"local_attention": "hgt"}, 3 * (3 * LINEAR + H * H + 2 * 12 * 64 * 64 + 12)),
        ({}, (100 * 12 * H + 300) + 2 * (2 * (300 * 300 + 300) + 812_700)),
    ],
)
