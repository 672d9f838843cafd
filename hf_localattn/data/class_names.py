"""Names of classes: spellings that may be the same class, several classes, or none."""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections.abc import Sequence

from hf_localattn.errors import IGNORABLE, shorten

logger = logging.getLogger(__name__)

WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
"""A whole number."""

UNCLEAR_TEXTS = frozenset({"none", "null", "na", "n/a"})
"""Texts that are a class among names, and may be a missing value among numbers."""

_QUOTES = "\"'"
_JOINTS = re.compile(r"[,;|/\\#+&\u3001\u060c\u061b]|\band\b")
"""What may join two classes in one label, in the usual widths."""
_IGNORABLE = re.compile(f"[{IGNORABLE}]")


def find_unclear_name(names: Sequence[str]) -> tuple[str, str] | None:
    """Find a class name that may be another spelling of a name, several classes in one, or a missing value.

    Two names are spellings of the same class if they are the same whole number or truth value, or if they look equal:
    if they differ only by quotes around them, invisible characters, kinds of hyphens, ligatures or widths of letters.
    Names that differ only by case or blanks are logged.

    Returns:
        The name, and what is unclear; None if all names are clear.
    """
    for name in names:
        if not look_of(name):
            return name, "has no visible character; name the class"
    first_spellings: dict[str | int, str] = {}
    first_cases: dict[str, str] = {}
    for name in names:
        look = look_of(name).strip(_QUOTES)
        key: str | int = look
        if look.casefold() in ("true", "false"):
            key = int(look.casefold() == "true")
        elif WHOLE.fullmatch(look):
            key = int(look.partition(".")[0])
        other = first_spellings.setdefault(key, name)
        if other != name:
            return name, f"is another spelling of {shorten(other)}; use one of them"
        similar = first_cases.setdefault("".join(look.casefold().split()), name)
        if similar != name:
            logger.warning("The classes %s and %s differ only by case or blanks.", shorten(similar), shorten(name))
    names_by_look = {look_of(name): name for name in names}
    for look, name in names_by_look.items():
        looks = [part.strip() for part in _JOINTS.split(look)]
        if len(looks) > 1 and names_by_look.keys() >= {*looks}:
            parts = [names_by_look[part] for part in looks]
            return name, f"joins other classes; write {json.dumps(parts, ensure_ascii=False)} for several"
    unclear = [name for name in names if name.casefold() in UNCLEAR_TEXTS]
    others = [name for name in names if name not in unclear]
    if unclear and others and all(map(WHOLE.fullmatch, others)):
        return unclear[0], "may be a class or a missing value; leave its cell empty, or rename the class"
    return None


def look_of(name: str) -> str:
    """Return what is seen of a name: without invisible characters, in the usual letters and hyphens."""
    letters = []
    for character in unicodedata.normalize("NFKC", _IGNORABLE.sub("", name)):
        category = unicodedata.category(character)
        if category == "Pd":
            letters.append("-")
        elif category not in ("Cc", "Cf", "Zl", "Zp"):
            letters.append(character)
    return "".join(letters).strip()
