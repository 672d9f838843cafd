"""Entry of COOL, the context outlooker."""

from __future__ import annotations

from hf_localattn.models import (
    CoolConfig,
    CoolForConditionalGeneration,
    CoolForMaskedLM,
    CoolForMultipleChoice,
    CoolForQuestionAnswering,
    CoolForSequenceClassification,
    CoolForTokenClassification,
    CoolModel,
)
from hf_localattn.models.configuration_cool import BASELINES
from hf_localattn.registry.family import Family
from hf_localattn.registry.views import LocalMap, outlook_attention_matrix

OUTLOOK_FIELDS = (
    *("outlook_num_heads", "outlook_softmax", "mask_outside_window", "outlook_dropout"),
    *("use_conv", "num_ffn_layers", "use_layer_norm", "qkv_bias"),
)
"""Fields of the outlook layers only."""

COOL = Family(
    config=CoolConfig,
    model=CoolModel,
    heads={
        "question-answering": CoolForQuestionAnswering,
        "text-classification": CoolForSequenceClassification,
        "token-classification": CoolForTokenClassification,
        "multiple-choice": CoolForMultipleChoice,
        "fill-mask": CoolForMaskedLM,
        "text2text-generation": CoolForConditionalGeneration,
    },
    paper="cool",
    local_map=LocalMap(
        is_available=lambda config: config.local_attention == "outlook" and config.num_active_local_layers > 0,
        settings="local_attention=outlook",
        title="outlook attention",
        matrix=outlook_attention_matrix,
    ),
    controls=("mode", "local_attention", "use_conv"),
    effects=lambda config: {
        OUTLOOK_FIELDS: config.local_attention == "outlook",
        ("fusion",): config.mode == "g&l",
        ("num_extra_layers",): config.local_attention == "deeper",
        ("graph_window",): config.local_attention in ("rgcn", "gat", "hgt"),
        ("outlook_kernel_size",): config.local_attention in ("outlook", "dynamic_conv", "visual_outlook"),
        ("num_local_layers",): config.local_attention in ("outlook", *BASELINES),
        ("conv_filters", "conv_pooling", "conv_alignment"): config.has_convolution_block,
    },
    tiny_fields={"conv_filters": 5, "classifier_dropout": 0.0},
    ablations=(
        {"num_local_layers": 1},
        {"mode": "l2g"},
        {"mode": "g&l", "fusion": "gate"},
        {"use_conv": False},
        *({"local_attention": name} for name in ("none", "deeper", "conv", "dynamic_conv", "visual_outlook")),
        *({"local_attention": name} for name in ("rgcn", "gat", "hgt")),
    ),
)
