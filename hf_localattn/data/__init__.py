"""Readers of corpora and what turns them into model inputs and back into answers."""

from hf_localattn.data.cged import load_cged
from hf_localattn.data.column_files import load_conll, load_conllu
from hf_localattn.data.negation import load_bioscope, load_negation, load_sfu, load_starsem
from hf_localattn.data.squad import check_squad, count_unanswerable, load_squad

__all__ = [
    "check_squad",
    "count_unanswerable",
    "load_bioscope",
    "load_cged",
    "load_conll",
    "load_conllu",
    "load_negation",
    "load_sfu",
    "load_squad",
    "load_starsem",
]
