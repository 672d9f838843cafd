"""Saving of checkpoints during a training: when, and with one copy of the model code."""

from __future__ import annotations

import filecmp
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from hf_localattn.files import STAGING

logger = logging.getLogger(__name__)

PAUSE = 120.0
"""Seconds of training that a killed run may lose."""


class CheckpointSaving(TrainerCallback):
    """Leave out checkpoints that nobody needs, and keep one copy of the code of all checkpoints.

    By default a checkpoint is left out within `PAUSE` seconds after training began, or after another one. With
    `keep_checkpoints` the last step has one, from which a run can be trained further.
    """

    last_time = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.last_time = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Arguments of transformers have no such field, and the processes of a distributed run no common time.
        if not getattr(args, "saves_by_time", False) or args.world_size > 1:
            return
        if not (args.keep_checkpoints and state.global_step >= state.max_steps):
            control.should_save &= time.monotonic() - self.last_time >= PAUSE

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.last_time = time.monotonic()
        if args.should_save:
            share_code(Path(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"))


def share_code(checkpoint: Path) -> None:
    """Replace the code files of a checkpoint by hard links to the equal files of the checkpoints beside it.

    Each checkpoint can still be loaded, copied and removed by itself.
    """
    for path in checkpoint.glob("*.py"):
        for other in checkpoint.parent.glob(f"{PREFIX_CHECKPOINT_DIR}-*/{path.name}"):
            if other.samefile(path) or not filecmp.cmp(other, path, shallow=False):
                continue
            link = path.with_name(f"{STAGING}{path.name}")
            with suppress(OSError):  # a file system without links
                os.link(other, link)
                os.replace(link, path)
            break


@contextmanager
def save_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """At the first Ctrl-C in the block, save a checkpoint after the current step, then raise `KeyboardInterrupt`.

    A second Ctrl-C ends the program at once. The block is not changed for distributed runs, whose processes would end
    at different steps, without checkpoints, and outside the main thread of a program that Ctrl-C ends.
    """
    args = trainer.args
    is_main = threading.current_thread() is threading.main_thread()
    usual = signal.getsignal(signal.SIGINT)
    if args.world_size > 1 or args.save_strategy == "no" or not is_main or usual is not signal.default_int_handler:
        yield
        return
    callback = _SaveOnInterrupt()
    trainer.add_callback(callback)
    signal.signal(signal.SIGINT, callback.interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        trainer.remove_callback(callback)


class _SaveOnInterrupt(TrainerCallback):
    interrupted = False

    def interrupt(self, *signaled: Any) -> None:
        self.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logger.warning("Saving a checkpoint after this step. Press Ctrl-C again to end at once.")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save |= self.interrupted

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
