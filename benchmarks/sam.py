"""SAM: a training step relative to the backbone, for the paper's module and its baselines."""

from __future__ import annotations

from functools import partial

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

from benchmarks.registry import Step, case
from hf_localattn import SamRobertaConfig, SamRobertaForSequenceClassification


@case(
    "sam-step",
    "SAM on RoBERTa-base, text classification, training step at batch 8, length 128, half of the texts shorter by a "
    "quarter; peer: the stock class",
    time_targets={"sam": 1.15},  # and at most 1.02 of the time of rb
)
def training_step(device: torch.device) -> dict[str, Step]:
    torch.manual_seed(0)
    batch, length = 8, 128
    given = {
        "input_ids": torch.randint(1000, 30000, (batch, length)),
        "attention_mask": torch.ones(batch, length, dtype=torch.long),
        "labels": torch.zeros(batch, dtype=torch.long),
    }
    given["attention_mask"][::2, length * 3 // 4 :] = 0
    given = {key: tensor.to(device) for key, tensor in given.items()}

    def step(model: torch.nn.Module) -> None:
        model(**given).loss.backward()
        model.zero_grad(set_to_none=True)

    backbone = {"model_type": "roberta", "max_position_embeddings": 514, "vocab_size": 50265}
    stock = RobertaConfig(**{name: value for name, value in backbone.items() if name != "model_type"})
    models = {"backbone": RobertaForSequenceClassification(stock)} | {
        head: SamRobertaForSequenceClassification(SamRobertaConfig(backbone_config=backbone, pooling=head))
        for head in ("none", "rb", "rba", "sam", "disan")
    }
    return {name: partial(step, model.train().to(device)) for name, model in models.items()}
