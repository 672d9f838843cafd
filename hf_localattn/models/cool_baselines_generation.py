"""COOL for text generation with the layers of a baseline, which `cool_baselines.py` adds to the table."""

from .cool_baselines import BASELINE_LAYERS
from .modeling_cool_generation import CoolForConditionalGeneration

__all__ = ["BASELINE_LAYERS", "CoolForConditionalGeneration"]
