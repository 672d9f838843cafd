"""OA: a training step relative to the backbone, and memory by query length."""

from __future__ import annotations

from functools import partial
from typing import get_args

import torch
from transformers import XLNetConfig, XLNetForTokenClassification

from benchmarks.registry import Step, case
from hf_localattn import OaXLNetConfig, OaXLNetForTokenClassification
from hf_localattn.models.configuration_local_attention import field_types
from hf_localattn.models.oa_attention import OrthogonalAttentionBlock

INTERACTIONS = get_args(field_types(OaXLNetConfig)["local_attention"])[:-1]  # without "none"

XLNET_BASE = {"model_type": "xlnet", "d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}


def backbone_config() -> XLNetConfig:
    """Return the configuration of XLNet-base."""
    return XLNetConfig(**{name: value for name, value in XLNET_BASE.items() if name != "model_type"})


def step(model: torch.nn.Module, given: dict[str, torch.Tensor]) -> None:
    """Run one forward and backward pass."""
    model(**given).loss.backward()
    model.zero_grad(set_to_none=True)


@case(
    "oa-step",
    "OA with two blocks on XLNet-base, negation scopes, training step at batch 8, length 128, cues of 1 to 3 tokens; "
    "peer: the bare backbone",
    time_targets=dict.fromkeys(INTERACTIONS, 1.30),
)
def training_step(device: torch.device) -> dict[str, Step]:
    torch.manual_seed(0)
    batch, length = 8, 128
    inputs = {
        "input_ids": torch.randint(10, 30000, (batch, length)),
        "attention_mask": torch.ones(batch, length, dtype=torch.long),
        "labels": torch.randint(0, 2, (batch, length)),
    }
    inputs["attention_mask"][::2, : length // 4] = 0
    query = torch.zeros(batch, length, dtype=torch.long)
    for row in range(batch):
        query[row, [60, 70, 90][: 1 + row % 3]] = 1
    models = {
        interaction: OaXLNetForTokenClassification(
            OaXLNetConfig(backbone_config=XLNET_BASE, local_attention=interaction)
        )
        for interaction in INTERACTIONS
    }
    steps = {}
    for name, model in {"backbone": XLNetForTokenClassification(backbone_config()), **models}.items():
        given = inputs if name == "backbone" else {**inputs, "query_mask": query}
        given = {key: tensor.to(device) for key, tensor in given.items()}
        steps[name] = partial(step, model.train().to(device), given)
    return steps


@case(
    "oa-query-length",
    "One OA-EMB block at base size, forward and backward, batch 2, length 384, by the number of query tokens; peer: 8 "
    "tokens",
    memory_targets={"16 tokens": 2.0, "32 tokens": 4.0, "64 tokens": 8.0, "64 tokens in chunks of 48": 8.0 / 4},
)
def query_length(device: torch.device) -> dict[str, Step]:
    torch.manual_seed(0)
    context = torch.randn(2, 384, 768, device=device)

    def block_step(block: torch.nn.Module, tokens: int) -> None:
        states = context.clone().requires_grad_()
        block(states, states[:, :tokens])[0].square().sum().backward()
        block.zero_grad(set_to_none=True)

    whole = OrthogonalAttentionBlock(768, 12, 768).to(device)
    chunked = OrthogonalAttentionBlock(768, 12, 768, chunk_size=48).to(device)
    steps = {f"{tokens} tokens": partial(block_step, whole, tokens) for tokens in (8, 16, 32, 64)}
    return {**steps, "64 tokens in chunks of 48": partial(block_step, chunked, 64)}
