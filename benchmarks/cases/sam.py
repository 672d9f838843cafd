"""SAM: a training step relative to the backbone, for the paper's module and its baselines."""

from __future__ import annotations

from functools import partial

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

from benchmarks.registry import Scale, Step, case, train_step
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
    inputs = scale.padded_batch(batch, length, slice(length * 3 // 4, None))
    inputs["labels"] = torch.zeros(batch, dtype=torch.long)
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    backbone = RobertaConfig(max_position_embeddings=514, vocab_size=50265, **scale.encoder)
    models: dict[str, torch.nn.Module] = {"backbone": RobertaForSequenceClassification(backbone)}
    for pooling in ("none", "rb", "rba", "sam", "disan"):
        config = SamRobertaConfig(backbone_config=backbone, pooling=pooling)
        models[pooling] = SamRobertaForSequenceClassification(config)
    return {name: partial(train_step, model.train().to(device), inputs) for name, model in models.items()}
