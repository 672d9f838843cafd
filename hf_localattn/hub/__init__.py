"""Checkpoint folders: creating them, verifying their code, writing model cards, and uploading them to the Hub."""

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
