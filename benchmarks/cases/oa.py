"""OA: a training step relative to the backbone, and memory by query length."""

from __future__ import annotations

from functools import partial

import torch
from transformers import XLNetConfig, XLNetForTokenClassification

from benchmarks.registry import Scale, Step, case, train_step
from hf_localattn import OaXLNetConfig, OaXLNetForTokenClassification
from hf_localattn.models.fields_oa_xlnet import INTERACTIONS
from hf_localattn.models.oa_attention import OrthogonalAttentionBlock


def backbone_of(scale: Scale) -> XLNetConfig:
    """Return the configuration of XLNet-base, or of a tiny XLNet."""
    size = scale.encoder.get("hidden_size", 768)
    return XLNetConfig(
        d_model=size,
        n_layer=scale.encoder.get("num_hidden_layers", 12),
        n_head=scale.encoder.get("num_attention_heads", 12),
        d_inner=4 * size,
    )


@case(
    "oa-step",
    "OA with two blocks on XLNet-base, negation scopes, training step at batch 8, length 128, cues of 1 to 3 tokens; "
    "peer: the bare backbone",
    time_targets=dict.fromkeys(INTERACTIONS, 1.30),
)
def training_step(device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    batch = scale.limit(8)
    length = scale.limit(128)
    inputs = scale.padded_batch(batch, length, slice(length // 4))
    inputs["labels"] = torch.randint(0, 2, (batch, length))
    query = torch.zeros(batch, length, dtype=torch.long)
    for row in range(batch):
        for place in (60, 70, 90)[: 1 + row % 3]:
            query[row, place * length // 128] = 1
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    backbone = XLNetForTokenClassification(backbone_of(scale))
    steps = {"backbone": partial(train_step, backbone.train().to(device), inputs)}
    inputs = {**inputs, "query_mask": query.to(device)}
    for interaction in INTERACTIONS:
        config = OaXLNetConfig(backbone_config=backbone_of(scale), local_attention=interaction)
        model = OaXLNetForTokenClassification(config)
        steps[interaction] = partial(train_step, model.train().to(device), inputs)
    return steps


@case(
    "oa-query-length",
    "One OA-EMB block at base size, forward and backward, batch 2, length 384, by the number of query tokens; peer: 8 "
    "tokens",
    memory_targets={"16 tokens": 2.0, "32 tokens": 4.0, "64 tokens": 8.0, "64 tokens in chunks of 48": 8.0 / 4},
)
def query_length(device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    backbone = backbone_of(scale)
    context = torch.randn(2, scale.limit(384), backbone.hidden_size, device=device)

    def block_step(block: torch.nn.Module, tokens: int) -> None:
        states = context.clone().requires_grad_()
        block(states, states[:, :tokens])[0].square().sum().backward()
        block.zero_grad(set_to_none=True)

    whole = OrthogonalAttentionBlock(OaXLNetConfig(backbone_config=backbone)).to(device)
    chunked = OrthogonalAttentionBlock(OaXLNetConfig(backbone_config=backbone, oa_chunk_size=48)).to(device)
    steps = {f"{tokens} tokens": partial(block_step, whole, tokens) for tokens in (8, 16, 32, 64)}
    return {**steps, "64 tokens in chunks of 48": partial(block_step, chunked, 64)}
