"""Optimizer settings of this package. They are saved in checkpoints, and compared when training is resumed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import ExportableState

from hf_localattn.parsing import read_json
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.output_folder import STATE

NAMES = ("local_learning_rate", "lookahead_steps", "lookahead_alpha")
"""Arguments that change the structure of the optimizer's state: its parameter groups, or Lookahead's slow weights."""


class OptimizerSettings(TrainerCallback, ExportableState):
    """Callback that saves the arguments of `NAMES` in the `trainer_state.json` of every checkpoint.

    Args:
        **settings: values of these arguments. They default to the values in the training arguments.
    """

    def __init__(self, **settings: Any):
        self.settings = settings

    def state(self) -> dict[str, Any]:
        """Return the entry of this callback in `trainer_state.json`."""
        return {"args": self.settings, "attributes": {}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the settings again, because a search changes them, and add the entry to older states."""
        self.settings = settings_of_optimizer(args)
        state.stateful_callbacks[type(self).__name__] = self.state()


def settings_of_optimizer(training_args: Any) -> dict[str, Any]:
    """Return the arguments of `NAMES`. Missing arguments are None."""
    return {name: getattr(training_args, name, None) for name in NAMES}


def check_same_optimizer(checkpoint: str | os.PathLike[str], training_args: TrainingArguments) -> None:
    """Raise `ValueError` if the optimizer state of a checkpoint belongs to other arguments.

    Checkpoints without these settings, for example from other programs, are accepted.
    """
    state = read_json(Path(checkpoint) / STATE)
    saved = state.get("stateful_callbacks", {}).get(OptimizerSettings.__name__, {}).get("args", {})
    for name, current in settings_of_optimizer(training_args).items():
        if name in saved and saved[name] != current:
            raise ValueError(
                f"{checkpoint} was trained with another optimizer: its {name} is {_format(saved[name])}, but now it"
                f" is {_format(current)}. Repeat the command of that run, or choose another --output_dir."
            )


def _format(value: Any) -> str:
    return "not set" if value is None else repr(value)
