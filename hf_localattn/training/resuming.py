"""Training loss of a resumed run, the same as that of an uninterrupted run.

After a resumption, Trainer's `train_loss` and its first `loss` only cover the steps since the checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from hf_localattn.files import atomic_write


def save_loss(trainer: Trainer, checkpoint: str) -> None:
    """Write the loss of a process: its sum to the last logged step, its sum since then, and that step."""
    loss = trainer._total_loss_scalar, trainer._tr_loss.item(), trainer._globalstep_last_logged
    atomic_write(_path(checkpoint, trainer), json.dumps(loss))


def load_loss(trainer: Trainer, checkpoint: str) -> tuple[float, float, int] | None:
    """Return the loss that `save_loss` has written; None if there is none."""
    path = _path(checkpoint, trainer)
    return tuple(json.loads(path.read_text())) if path.is_file() else None


class RestoreLoss(TrainerCallback):
    """Callback that restores the loss after Trainer has reset it.

    Args:
        trainer: the trainer.
        checkpoint: the checkpoint to resume from.
    """

    def __init__(self, trainer: Trainer, checkpoint: str):
        self.trainer, self.loss = trainer, load_loss(trainer, checkpoint)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restore the loss."""
        if self.loss is not None:
            trainer, since = self.trainer, self.loss[1]
            trainer._total_loss_scalar, _, trainer._globalstep_last_logged = self.loss
            trainer._tr_loss = torch.tensor(since, device=args.device)


def _path(checkpoint: str, trainer: Trainer) -> Path:
    return Path(checkpoint, f"training_loss_{trainer.args.process_index}.json")
