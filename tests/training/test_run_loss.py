"""The loss of a run is Trainer's own, also if that of a batch is not finite."""

import pytest
import torch
from torch import nn
from transformers import Trainer

from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.trainer import LocalAttentionTrainer

VALUES = [float("nan"), 2.0, 3.0, float("inf"), 5.0]


class Losses(nn.Module):
    """Its loss is its input."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, value):
        return {"loss": value.mean() + 0 * self.weight}


def test_losses_are_trainers_own(tmp_path):
    histories = []
    for trainer_class in (Trainer, LocalAttentionTrainer):
        arguments = TrainingArguments(
            output_dir=tmp_path,
            per_device_train_batch_size=1,
            num_train_epochs=1,
            learning_rate=1e-3,
            logging_steps=2,
            save_strategy="no",
            report_to="none",
            train_sampling_strategy="sequential",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = trainer_class(Losses(), arguments, train_dataset=[{"value": value} for value in VALUES])
        trainer.train()
        rows = trainer.state.log_history
        histories.append([row[name] for row in rows for name in ("loss", "train_loss") if name in row])
    theirs, ours = histories
    assert ours == pytest.approx(theirs)
    assert len(ours) == 3
