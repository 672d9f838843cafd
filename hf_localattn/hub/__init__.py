"""Checkpoint folders: creating them, verifying their code, writing model cards, and uploading them to the Hub.

A name is imported when it is first used: `verify` needs neither torch nor transformers.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_localattn.hub.checkpoint import init_checkpoint
    from hf_localattn.hub.model_card import render_card, write_card
    from hf_localattn.hub.push import push_checkpoint
    from hf_localattn.hub.record import Score, TrainingRecord
    from hf_localattn.hub.verify import CodeFile, Verification, verify_checkpoint

__all__ = [
    "CodeFile",
    "Score",
    "TrainingRecord",
    "Verification",
    "init_checkpoint",
    "push_checkpoint",
    "render_card",
    "verify_checkpoint",
    "write_card",
]

_MODULES = {
    "checkpoint": ("init_checkpoint",),
    "model_card": ("render_card", "write_card"),
    "push": ("push_checkpoint",),
    "record": ("Score", "TrainingRecord"),
    "verify": ("CodeFile", "Verification", "verify_checkpoint"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
