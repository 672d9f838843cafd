"""Settings of the optimizer that Trainer does not know, saved in checkpoints and compared on resuming."""

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
"""Arguments that make the optimizer another one: its state has other groups, or slow weights in addition."""


class OptimizerSettings(TrainerCallback, ExportableState):
    """Write the arguments of `NAMES` into the state of every checkpoint (`trainer_state.json`).

    Args:
        **settings: their values; a trainer passes none, and they are those of its arguments.
    """

    def __init__(self, **settings: Any):
        self.settings = settings

    def state(self) -> dict[str, Any]:
        """Return what Trainer writes into the state."""
        return {"args": self.settings, "attributes": {}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take them from the arguments, which a search changes; a state from before this class lacks a place."""
        self.settings = settings_of_optimizer(args)
        state.stateful_callbacks[type(self).__name__] = self.state()


def settings_of_optimizer(training_args: Any) -> dict[str, Any]:
    """Return the arguments of `NAMES`; None where there is no such argument."""
    return {name: getattr(training_args, name, None) for name in NAMES}


def check_same_optimizer(checkpoint: str | os.PathLike[str], training_args: TrainingArguments) -> None:
    """Raise `ValueError` if a checkpoint's optimizer was made with other arguments: its state would not fit.

    A checkpoint that does not say, such as one of another program, passes.
    """
    state = read_json(Path(checkpoint) / STATE)
    written = state.get("stateful_callbacks", {}).get(OptimizerSettings.__name__, {}).get("args", {})
    for name, own in settings_of_optimizer(training_args).items():
        if name in written and written[name] != own:
            raise ValueError(
                f"{checkpoint} was trained with another optimizer: its {name} is {_spoken(written[name])}, this one's"
                f" is {_spoken(own)}. Give the command it was made with, or another --output_dir."
            )


def _spoken(value: Any) -> str:
    return "not set" if value is None else repr(value)
