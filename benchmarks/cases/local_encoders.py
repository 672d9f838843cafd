"""COOL's local encoders on the same backbone, and the growth of graph layers with the length of the input."""

from __future__ import annotations

from functools import partial

import torch
from transformers import BertConfig

from benchmarks.registry import Scale, Step, case
from hf_localattn import CoolConfig, CoolForTokenClassification
from hf_localattn.models.cool_local_encoder import LOCAL_LAYERS
from hf_localattn.models.fields import field_types, values_of

BATCH, LENGTH = 4, 128
KINDS = values_of(field_types(CoolConfig)["local_attention"])
SETTINGS = {kind: {"local_attention": kind} for kind in KINDS} | {"outlook, no conv": {"use_conv": False}}
LENGTHS = (128, 512, 2048)


@case(
    "local-encoders",
    f"COOL's local encoders on BERT-base, token classification, training step at batch {BATCH}, length {LENGTH}; "
    "peer: without a local encoder",
)
def training_step(device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    length = scale.limit(LENGTH)
    inputs = {
        "input_ids": scale.token_ids(BATCH, length).to(device),
        "labels": torch.randint(0, 2, (BATCH, length), device=device),
    }
    backbone = BertConfig(**scale.encoder)

    def step(model: torch.nn.Module) -> None:
        model(**inputs).loss.backward()
        model.zero_grad(set_to_none=True)

    steps = {}
    for name, fields in SETTINGS.items():
        model = CoolForTokenClassification(CoolConfig(backbone_config=backbone, **fields))
        steps[name] = partial(step, model.train().to(device))
    return steps


def layer_at_lengths(kind: str, device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    config = CoolConfig(backbone_config=BertConfig(**scale.encoder), local_attention=kind)
    layer = LOCAL_LAYERS[kind](config).to(device)

    def step(states: torch.Tensor) -> None:
        layer(states)[0].sum().backward()
        layer.zero_grad(set_to_none=True)
        states.grad = None

    steps = {}
    for length in LENGTHS:
        states = torch.randn(BATCH, scale.limit(length), config.local_size, device=device, requires_grad=True)
        steps[f"length {length}"] = partial(step, states)
    return steps


for graph in ("rgcn", "gat", "hgt"):
    case(
        f"{graph}-length",
        f"One {graph} layer at width 768, forward and backward, batch {BATCH}, by length; peer: length {LENGTHS[0]}",
        time_targets={"length 512": 4.4, "length 2048": 17.6},
        memory_targets={"length 512": 4.0, "length 2048": 16.0},
    )(partial(layer_at_lengths, graph))
