"""SAM: a training step relative to the backbone, for the paper's module and its baselines."""

from __future__ import annotations

from functools import partial

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

from benchmarks.registry import Scale, Step, case
from hf_localattn import SamRobertaConfig, SamRobertaForSequenceClassification


@case(
    "sam-step",
    "SAM on RoBERTa-base, text classification, training step at batch 8, length 128, half of the texts shorter by a "
    "quarter; peer: the stock class",
    time_targets={"sam": 1.15},  # and at most 1.02 of the time of rb
)
def training_step(device: torch.device, scale: Scale) -> dict[str, Step]:
    torch.manual_seed(0)
    batch = scale.limit(8)
    length = scale.limit(128)
    inputs = {
        "input_ids": scale.token_ids(batch, length),
        "attention_mask": torch.ones(batch, length, dtype=torch.long),
        "labels": torch.zeros(batch, dtype=torch.long),
    }
    inputs["attention_mask"][::2, length * 3 // 4 :] = 0
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}

    def step(model: torch.nn.Module) -> None:
        model(**inputs).loss.backward()
        model.zero_grad(set_to_none=True)

    backbone = RobertaConfig(max_position_embeddings=514, vocab_size=50265, **scale.encoder)
    models: dict[str, torch.nn.Module] = {"backbone": RobertaForSequenceClassification(backbone)}
    for pooling in ("none", "rb", "rba", "sam", "disan"):
        config = SamRobertaConfig(backbone_config=backbone, pooling=pooling)
        models[pooling] = SamRobertaForSequenceClassification(config)
    return {name: partial(step, model.train().to(device)) for name, model in models.items()}
