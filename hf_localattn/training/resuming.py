"""Interrupting and resuming a run: a checkpoint at Ctrl-C, and the training loss of an uninterrupted run.

After a resumption, Trainer's `train_loss` and its first `loss` only cover the steps since the checkpoint.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from hf_localattn.files import atomic_write

logger = logging.getLogger(__name__)


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


class SaveOnInterrupt(TrainerCallback):
    """Callback that saves a checkpoint at the end of the step in which Ctrl-C is pressed, then ends the training."""

    def __init__(self) -> None:
        self.interrupted = False

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Catch the first Ctrl-C within the block. A second one ends the program at once."""
        usual = signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, usual)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ask for a checkpoint."""
        control.should_save |= self.interrupted

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the training."""
        if self.interrupted:
            raise KeyboardInterrupt

    def _note(self, *signaled: Any) -> None:
        self.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logger.warning("Saving a checkpoint after this step. Press Ctrl-C again to end at once.")


def listens_to_ctrl_c() -> bool:
    """Return True in the main thread of a program that Ctrl-C ends."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _path(checkpoint: str, trainer: Trainer) -> Path:
    return Path(checkpoint, f"training_loss_{trainer.args.process_index}.json")
