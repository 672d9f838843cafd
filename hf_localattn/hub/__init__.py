"""Checkpoint folders: creating them, verifying their code, writing model cards, and uploading them to the Hub.

A name is imported when it is first used: `verify` needs neither torch nor transformers.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_localattn.hub.checkpoint import init_checkpoint as init_checkpoint
    from hf_localattn.hub.model_card import render_card as render_card
    from hf_localattn.hub.model_card import write_card as write_card
    from hf_localattn.hub.push import push_checkpoint as push_checkpoint
    from hf_localattn.hub.record import Score as Score
    from hf_localattn.hub.record import TrainingRecord as TrainingRecord
    from hf_localattn.hub.verify import CodeFile as CodeFile
    from hf_localattn.hub.verify import Verification as Verification
    from hf_localattn.hub.verify import verify_checkpoint as verify_checkpoint

_MODULES = {
    "CodeFile": "verify",
    "Score": "record",
    "TrainingRecord": "record",
    "Verification": "verify",
    "init_checkpoint": "checkpoint",
    "push_checkpoint": "push",
    "render_card": "model_card",
    "verify_checkpoint": "verify",
    "write_card": "model_card",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
