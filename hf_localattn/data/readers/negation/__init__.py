"""Readers for corpora of negation and speculation; one row per cue of a sentence."""

from hf_localattn.data.readers.negation.bioscope import load_bioscope
from hf_localattn.data.readers.negation.rows import CUE_TYPES, NEGATION_FEATURES, describe_cues
from hf_localattn.data.readers.negation.sfu import load_sfu
from hf_localattn.data.readers.negation.starsem import load_starsem

__all__ = [
    "CUE_TYPES",
    "NEGATION_FEATURES",
    "describe_cues",
    "load_bioscope",
    "load_sfu",
    "load_starsem",
]
