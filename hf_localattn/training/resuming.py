"""Training loss saved in checkpoints, so that a resumed run reports the same loss as an uninterrupted run.

After a resumption, Trainer's `train_loss` and its first `loss` only cover the steps since the checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from hf_localattn.files import atomic_write
from hf_localattn.parsing import read_json
from hf_localattn.training.output_folder import STATE


@dataclass(frozen=True)
class LossSoFar:
    """The training loss of a process, summed over all steps.

    Args:
        logged: sum up to the last logged step.
        since: sum after the last logged step.
        last_logged: number of the last logged step.
    """

    logged: float
    since: float
    last_logged: int

    @classmethod
    def of(cls, trainer: Trainer) -> LossSoFar:
        """Read the loss from a trainer."""
        return cls(trainer._total_loss_scalar, trainer._tr_loss.item(), trainer._globalstep_last_logged)

    @classmethod
    def load(cls, checkpoint: Path, process: int) -> LossSoFar | None:
        """Read the loss from a checkpoint; return None if its file is missing or invalid."""
        try:
            found = read_json(checkpoint / file_name(process))
            return cls(float(found["logged"]), float(found["since"]), int(found["last_logged"]))
        except (OSError, TypeError, ValueError, KeyError):
            return None

    def save(self, checkpoint: Path, process: int) -> None:
        """Write the loss to a checkpoint."""
        atomic_write(checkpoint / file_name(process), json.dumps(dataclasses.asdict(self)))

    def mean(self, steps: int) -> float:
        """Return the mean over all steps, as Trainer computes it."""
        return (self.logged + self.since) / max(steps, 0.001)


def file_name(process: int) -> str:
    """Return the name of a process's file in a checkpoint."""
    return f"training_loss_{process}.json"


class RestoreProgress(TrainerCallback):
    """Callback that restores the loss and the path of the best checkpoint when training is resumed.

    The state of a checkpoint contains the path of the best checkpoint. The path is wrong if the folder was moved, so
    the best checkpoint is looked up by name in the current folder.

    Args:
        trainer: the trainer.
        checkpoint: the checkpoint to resume from.
    """

    def __init__(self, trainer: Trainer, checkpoint: Path):
        self.trainer, self.checkpoint = trainer, checkpoint
        self.has_loss = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Restore the loss and the path after Trainer has reset them."""
        state.best_model_checkpoint = best_sibling(self.checkpoint)
        if (loss := LossSoFar.load(self.checkpoint, args.process_index)) is not None:
            self.has_loss, trainer = True, self.trainer
            trainer._total_loss_scalar, trainer._globalstep_last_logged = loss.logged, loss.last_logged
            trainer._tr_loss = torch.tensor(loss.since, device=args.device)


def best_sibling(checkpoint: Path) -> str | None:
    """Return the path of the best checkpoint, found by name in the folder of `checkpoint`; None if it is missing."""
    best = TrainerState.load_from_json(str(checkpoint / STATE)).best_model_checkpoint
    name = Path(best).name if isinstance(best, str) else ""
    path = checkpoint.with_name(name) if re.fullmatch(r"checkpoint-\d+", name) else None
    return str(path) if path is not None and path.is_dir() else None
