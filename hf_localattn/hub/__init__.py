"""Checkpoint folders: making them, and whatever else goes to the Hub with a model."""

from hf_localattn.hub.checkpoint import init_checkpoint

__all__ = ["init_checkpoint"]
