"""Facts about OA for tests."""

from __future__ import annotations

from itertools import cycle

from hf_localattn.families.facts import Facts, like_torch
from hf_localattn.models.fields_oa_xlnet import INTERACTIONS

BLOCKS = {"em": 6_006_528, "emb": 6_745_344, "c": 6_080_352, "ca": 6_825_408}
"""Numbers of parameters of a block."""

FACTS = Facts(
    tiny_fields={"oa_dropout": 0.0, "classifier_dropout": 0.0},
    rows={
        f"{interaction}-{sharing}": {"local_attention": interaction, "kv_sharing": sharing}
        for interaction, sharing in zip(INTERACTIONS, cycle(("none", "all")), strict=False)
    },
    row_fields={"oa_num_heads": 2},  # so that the width of a head is a square
    export_backbone="bert",
    starts=[
        ({}, "blocks.*(?<!norm).weight", like_torch),
        ({"encoder_states": "mix"}, "layer_scores", lambda weight: 0.0),
        ({"encoder_states": "mix"}, "layer_mix.scale", lambda weight: 1.0),
    ],
    new_parameters=[({"local_attention": kind}, 2 * size) for kind, size in BLOCKS.items()],
)
