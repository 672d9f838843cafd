"""The corpora of negation and speculation, read into one row for each cue of each sentence."""

from hf_localattn.data.negation.bioscope import load_bioscope
from hf_localattn.data.negation.formats import load_negation
from hf_localattn.data.negation.records import check_negation
from hf_localattn.data.negation.rows import CUE_TYPES, NEGATION_FEATURES, describe_cues
from hf_localattn.data.negation.sfu import load_sfu
from hf_localattn.data.negation.starsem import load_starsem

__all__ = [
    "CUE_TYPES",
    "NEGATION_FEATURES",
    "check_negation",
    "describe_cues",
    "load_bioscope",
    "load_negation",
    "load_sfu",
    "load_starsem",
]
