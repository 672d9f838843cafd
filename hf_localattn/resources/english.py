"""A dull test for texts in another language than English, which the package's own model does not read."""

from __future__ import annotations

import re

OTHER_LANGUAGE = (
    "A text seems to be in another language than English, which is the only one that the package's model of negation"
    " reads: train a model on your language (docs/negation.md)."
)

MOST_FOREIGN_LETTERS = 0.2
"""Largest share of letters outside a to z in an English text."""

_ENGLISH_WORDS = (
    "a an and are as at but by for from had has have he her his in is it not of on or she that the to was with"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())

_OTHER_WORDS = """
aber auch auf bei das dem der ein eine einer für ist kein keine keinen mit nicht oder ohne sich sie und von wird zu
au aux avec ce dans des du elle est et mais ni ou par pas pour qui sans sont sur une
como con del ella el los las muy niega nunca para pero por que se sin su una y ya
che di è gli nei nella nessun non più senza sono una um uma não nem sem tem com dos foi
een en geen het hij maar niet van voor zijn zonder med och inte som ikke og uten
"""
_OTHERS = frozenset(_OTHER_WORDS.split())
"""Frequent words of German, French, Spanish, Italian, Portuguese, Dutch and the Scandinavian languages."""


def is_english(text: str) -> bool:
    """Return False if many letters of a text are not English, or its frequent words are those of another language."""
    letters = sum(map(str.isalpha, text))
    foreign = letters - len(re.findall("[A-Za-z]", text))
    if foreign > MOST_FOREIGN_LETTERS * letters:
        return False
    words = {*re.findall(r"\w+", text.lower())}  # a form may have one often, such as the y of `y[ ]`
    others = len(words & _OTHERS)
    return others < 2 or others <= len(words & _ENGLISH)
