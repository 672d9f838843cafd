"""The loss so far, kept in checkpoints, so that a resumed run reports what an undisturbed one does.

Trainer by itself reports as `train_loss` the mean over the steps since it was started, and logs as the first `loss`
that since the checkpoint.
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
    """The loss of a process since the first step of the training.

    Args:
        logged: the sum up to the last step that was logged.
        since: the sum of the steps after that one.
        last_logged: that step.
    """

    logged: float
    since: float
    last_logged: int

    @classmethod
    def of(cls, trainer: Trainer) -> LossSoFar:
        """Take it from a trainer that is at work."""
        return cls(trainer._total_loss_scalar, trainer._tr_loss.item(), trainer._globalstep_last_logged)

    @classmethod
    def load(cls, checkpoint: Path, process: int) -> LossSoFar | None:
        """Read it from a checkpoint; None if it has none, such as one of another program."""
        try:
            found = read_json(checkpoint / file_name(process))
            return cls(float(found["logged"]), float(found["since"]), int(found["last_logged"]))
        except (OSError, TypeError, ValueError, KeyError):
            return None

    def save(self, checkpoint: Path, process: int) -> None:
        """Write it into a checkpoint."""
        atomic_write(checkpoint / file_name(process), json.dumps(dataclasses.asdict(self)))

    def mean(self, steps: int) -> float:
        """Return the mean over all steps, as Trainer calculates it."""
        return (self.logged + self.since) / max(steps, 0.001)


def file_name(process: int) -> str:
    """Return the name of a process's file in a checkpoint."""
    return f"training_loss_{process}.json"


class TakeUp(TrainerCallback):
    """Continue where a checkpoint ends, once the trainer has reset itself to the beginning.

    It sets the loss, and the path of the best checkpoint. The state has that path, but a state that was moved, or
    comes from a stranger, names another place: the best checkpoint is looked for in the same folder.

    Args:
        trainer: about to train.
        checkpoint: what it resumes from.
    """

    def __init__(self, trainer: Trainer, checkpoint: Path):
        self.trainer, self.checkpoint = trainer, checkpoint
        self.has_loss = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Take it up."""
        state.best_model_checkpoint = best_sibling(self.checkpoint)
        if (loss := LossSoFar.load(self.checkpoint, args.process_index)) is not None:
            self.has_loss, trainer = True, self.trainer
            trainer._total_loss_scalar, trainer._globalstep_last_logged = loss.logged, loss.last_logged
            trainer._tr_loss = torch.tensor(loss.since, device=args.device)


def best_sibling(checkpoint: Path) -> str | None:
    """Return the best checkpoint that the state of this one names, in the same folder; None if it is not there."""
    best = TrainerState.load_from_json(str(checkpoint / STATE)).best_model_checkpoint
    name = Path(best).name if isinstance(best, str) else ""
    path = checkpoint.with_name(name) if re.fullmatch(r"checkpoint-\d+", name) else None
    return str(path) if path is not None and path.is_dir() else None
