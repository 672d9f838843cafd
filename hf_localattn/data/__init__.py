"""Loaders of rows for every task, and the conversion of rows to model inputs."""

from hf_localattn.extras import require

require("train", __name__)

from hf_localattn.data.choices import load_choices
from hf_localattn.data.negation import load_negation
from hf_localattn.data.questions import count_unanswerable, load_answered, load_squad
from hf_localattn.data.rows import Source
from hf_localattn.data.texts import load_texts
from hf_localattn.data.words import load_sentences
from hf_localattn.settings.columns import ChoiceColumns, TextColumns, TokenColumns

__all__ = [
    "ChoiceColumns",
    "Source",
    "TextColumns",
    "TokenColumns",
    "count_unanswerable",
    "load_answered",
    "load_choices",
    "load_negation",
    "load_sentences",
    "load_squad",
    "load_texts",
]
