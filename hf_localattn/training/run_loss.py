"""The loss of a run, which goes on when training is resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hf_localattn.files import atomic_write

LOSSES = "training_loss_*.json"
"""Files of a checkpoint, one for each process."""


@dataclass
class RunLoss:
    """Sums of the losses of a run in one process. Trainer's own sums begin anew when training is resumed."""

    first_step: int | None = None
    """Step before the first loss."""

    logged_step: int = 0
    """Step of the last log."""

    logged: float = 0.0
    """Sum of the losses up to the last log, a mean over the processes."""

    unlogged: Any = 0.0
    """Sum of the losses of this process since then, in fp32."""

    def add(self, loss: torch.Tensor, step: int, *, skips_nan: bool) -> None:
        """Add the loss of a batch. As in Trainer, `skips_nan` replaces one that is not finite by a mean."""
        if self.first_step is None:
            self.first_step = self.logged_step = step
        if skips_nan and not loss.isfinite():
            self.unlogged += self.unlogged / (1 + step - self.logged_step)
        else:
            self.unlogged = self.unlogged + loss.float()

    def mean_since_log(self, accelerator: Any, step: int) -> float:
        """Return the mean of the steps since the last log. All processes call it together."""
        unlogged = torch.as_tensor(self.unlogged, device=accelerator.device)
        total = accelerator.gather(unlogged).mean().item()
        mean = total / (step - self.logged_step)
        self.logged += total
        self.logged_step = step
        self.unlogged = 0.0
        return mean

    def mean(self, step: int) -> float:
        """Return the mean of all steps, the last of which is `step`."""
        first_step = self.first_step or 0
        return (self.logged + float(self.unlogged)) / max(step - first_step, 1)

    def write(self, checkpoint: str | Path, process: int) -> None:
        """Write the sums of a process to a checkpoint."""
        sums = {**asdict(self), "unlogged": float(self.unlogged)}
        atomic_write(_path(checkpoint, process), json.dumps(sums))

    @classmethod
    def read(cls, checkpoint: str | Path, process: int) -> RunLoss:
        """Read the sums of a process. They are 0 for a checkpoint of transformers' own Trainer."""
        path = _path(checkpoint, process)
        return cls(**json.loads(path.read_text())) if path.is_file() else cls()


def _path(checkpoint: str | Path, process: int) -> Path:
    return Path(checkpoint, LOSSES.replace("*", str(process)))
