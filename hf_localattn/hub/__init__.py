"""Checkpoint folders: making them, their model cards, and uploading them to the Hub."""

from hf_localattn.hub.checkpoint import init_checkpoint
from hf_localattn.hub.model_card import render_card, renew_card, write_card
from hf_localattn.hub.push import push_checkpoint
from hf_localattn.hub.record import Score, TrainingRecord

__all__ = ["Score", "TrainingRecord", "init_checkpoint", "push_checkpoint", "render_card", "renew_card", "write_card"]
