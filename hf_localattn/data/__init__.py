"""Readers for corpora and data sets, and the conversion of their rows to model inputs."""

from hf_localattn.data.readers.cged import load_cged
from hf_localattn.data.readers.column_files import load_conll, load_conllu
from hf_localattn.data.readers.negation import load_bioscope, load_sfu, load_starsem
from hf_localattn.data.rows.negation import load_negation
from hf_localattn.data.rows.questions import count_unanswerable, load_squad, normalize_squad

__all__ = [
    "count_unanswerable",
    "load_bioscope",
    "load_cged",
    "load_conll",
    "load_conllu",
    "load_negation",
    "load_sfu",
    "load_squad",
    "load_starsem",
    "normalize_squad",
]
