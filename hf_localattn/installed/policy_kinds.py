"""Kinds of values that entries of a checkpoint may have, by the names in the rules of `policy_table.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hf_localattn.installed.policy_table import ATTENTIONS, ROTATIONS, TOKENIZERS, Rule
from hf_localattn.models.fields import Range, field_types, range_of
from hf_localattn.names import declaring_class, default_settings, family_names

MOST = 10**9
"""Largest number. A weight of two such sizes has fewer bytes than 64 bits count."""

NO_LIMIT = 10**20
"""Length from which on transformers takes a tokenizer's limit for none."""

FILE = re.compile(r"[\w.-]+")  # a name without a folder
ADDED_TOKEN = {"__type", "content", "id", "lstrip", "normalized", "rstrip", "single_word", "special"}


def is_data(value: Any, levels: int = 8) -> bool:
    """Return True for plain values, and lists of them."""
    if isinstance(value, list | tuple):
        return levels > 0 and all(is_data(part, levels - 1) for part in value)
    if isinstance(value, dict):  # infinity and NaN, as transformers writes them
        return value.keys() == {"__float__"} and isinstance(value["__float__"], str)
    return value is None or isinstance(value, bool | int | float | str)


def _is_whole(value: Any, least: int = -MOST) -> bool:
    return type(value) is int and least <= value <= MOST


def _is_size(value: Any) -> bool:
    return _is_whole(value, 1)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -MOST <= value <= MOST


def _are_sizes(value: Any) -> bool:
    return value is None or all(map(_is_size, value if isinstance(value, list) else [value]))


def _are_integers(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return all(part is None or _is_whole(part) for part in parts)


def _is_padding(value: Any) -> bool:
    wanted = {"direction": str, "pad_id": int, "pad_token": str, "pad_type_id": int}
    return value is None or (
        isinstance(value, dict) and all(type(part) is wanted.get(name) for name, part in value.items())
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, str | None) or (isinstance(value, list) and all(isinstance(part, str) for part in value))


def _is_limit(value: Any) -> bool:
    return type(value) in (int, float) and (value >= NO_LIMIT or _is_size(value))


def _is_rotation(value: Any, levels: int = 2) -> bool:
    if not isinstance(value, dict):
        return value is None
    return levels > 0 and all(
        part in ROTATIONS
        if name in ("type", "rope_type")
        else all(_is_number(factor) and factor > 0 for factor in (part if isinstance(part, list) else [part]))
        or _is_rotation(part, levels - 1)
        for name, part in value.items()
    )


def _is_token(value: Any) -> bool:
    if isinstance(value, dict):
        wanted = {"content": str, "__type": str, "id": int}
        is_token = "content" in value and value.keys() <= ADDED_TOKEN
        return is_token and all(type(part) is wanted.get(name, bool) for name, part in value.items())
    return isinstance(value, str | None)


def _is_template(name: Any, text: Any) -> bool:
    return isinstance(name, str) and isinstance(text, str) and FILE.fullmatch(name) is not None


def are_templates(value: Any) -> bool:
    """Return True for a template, or several by name."""
    if isinstance(value, dict):
        return all(_is_template(*item) for item in value.items())
    if not isinstance(value, list):
        return isinstance(value, str | None)
    is_named = all(isinstance(part, dict) and part.keys() == {"name", "template"} for part in value)
    return is_named and all(_is_template(part["name"], part["template"]) for part in value)


def _are_tokens(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list | None) and all(map(_is_token, parts or ()))


def _is_code(value: Any, levels: int = 8) -> bool:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_code(part, levels - 1) for part in parts)
    return isinstance(value, str | None)


def _is_tokenizer(value: Any) -> bool:
    if not isinstance(value, str):
        return value is None
    name = value.removesuffix("Fast")
    of_families = map(_tokenizer_of, (*family_names(), *_others))
    return name in TOKENIZERS or value == "PreTrainedTokenizerFast" or name.lower() in of_families


def _is_attention(value: Any) -> bool:
    names = value.values() if isinstance(value, dict) else (value,)
    return all(name in (None, *ATTENTIONS) for name in names)


def are_names(value: Any) -> bool:
    """Return True for a list of names of classes."""
    is_list = isinstance(value, list | None)
    return is_list and all(isinstance(name, str) and name.isidentifier() for name in value or ())


def _has_numbers(value: Any) -> bool:
    return not isinstance(value, dict) or all(re.fullmatch("[0-9]{1,9}", str(name)) for name in value)


def _are_counted(value: Any) -> bool:
    """Return True if the names are all numbers from 0, in any order."""
    return not isinstance(value, dict) or (_has_numbers(value) and {*map(int, value)} == {*range(len(value))})


def _are_labels(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(part, str | int) for part in value.values()))


def are_shards(value: Any) -> bool:
    """Return True for names of safetensors files by weight."""
    return isinstance(value, dict) and all(
        isinstance(shard, str) and FILE.fullmatch(shard) and shard.endswith(".safetensors") for shard in value.values()
    )


_VALUES = {
    "attention": Range(f"one of {', '.join(ATTENTIONS)}", _is_attention),
    "code": Range("names of classes", _is_code),
    "count": Range("a whole number from 0 to 10⁹", lambda value: _is_whole(value, 0)),
    "data": Range("a number, a text, true, false, null, or a list of these", is_data),
    "flag": Range("true or false", lambda value: isinstance(value, bool)),
    "fraction": Range(
        "a number with a decimal point", lambda value: isinstance(value, float) and math.isfinite(value)
    ),
    "integer": Range("a whole number from -10⁹ to 10⁹", _is_whole),
    "integers": Range("a whole number, null, or a list of these, from -10⁹ to 10⁹", _are_integers),
    "names": Range("a list of names of classes", are_names),
    "number": Range("a number from -10⁹ to 10⁹", _is_number),
    "labels": Range("an object of labels", _are_labels),
    "labels by number": Range(
        "an object of labels by number, from 0 without gaps", lambda value: _are_labels(value) and _are_counted(value)
    ),
    "limit": Range("a whole number above 0", _is_limit),
    "object": Range("an object", lambda value: isinstance(value, dict | None)),
    "padding": Range("an object of direction, pad_id, pad_token and pad_type_id", _is_padding),
    "rotation": Range(f"an object of numbers above 0, with a type of {', '.join(ROTATIONS)}", _is_rotation),
    "share": Range("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
    "size": Range("a whole number from 1 to 10⁹", _is_size),
    "sizes": Range("a whole number from 1 to 10⁹, null, or a list of such numbers", _are_sizes),
    "template": Range("a text, or several by name", are_templates),
    "text": Range("a text", lambda value: isinstance(value, str | None)),
    "texts": Range("a text, null, or a list of texts", _are_texts),
    "token": Range("a token", _is_token),
    "tokenizer": Range("a tokenizer that needs no library besides tokenizers", _is_tokenizer),
    "tokens": Range("a list or an object of tokens", _are_tokens),
    "tokens by number": Range(
        "an object of tokens by number",
        lambda value: isinstance(value, dict | None) and _are_tokens(value) and _has_numbers(value),
    ),
    "weights": Range("an object with the name of a safetensors file beside it for each weight", are_shards),
}


def _or_null(kind: Range) -> Range:
    return Range(f"{kind.description}, or null", lambda value: value is None or kind.holds(value))


KINDS: Mapping[str, Range] = {**_VALUES, **{f"{name}?": _or_null(kind) for name, kind in _VALUES.items()}}
"""Kinds by name. A name that ends in "?" also allows null."""


def values_of_rule(rule: Rule | Range) -> Range:
    """Return the values that a rule allows."""
    if isinstance(rule, str):
        return KINDS[rule]
    if isinstance(rule, Range):
        return rule
    names = ", ".join("null" if choice is None else str(choice) for choice in rule)
    return Range(
        f"one of {names}", lambda value: any(value == choice and type(value) is type(choice) for choice in rule)
    )


class Family(NamedTuple):
    """Entries that checkpoints of a family may set, besides those of all models."""

    fields: Mapping[str, Range]
    backbones: Collection[str] = ()
    settings: Mapping[str, Range] = MappingProxyType({})  # of its tokenizer
    defaults: Mapping[str, Any] = MappingProxyType({})  # of these settings


_others: dict[str, Family] = {}


def allow_family(name: str, family: Family) -> None:
    """Let checkpoints be of a family that is not the package's."""
    _others[name] = family


def is_family(model_type: Any) -> bool:
    """Return True for the model type of a family."""
    return isinstance(model_type, str) and (model_type in _others or model_type in family_names())


def family_named(model_type: str) -> Family:
    """Return what the checkpoints of a family may set."""
    if model_type in _others:
        return _others[model_type]
    fields, settings = (accepted_values(declaring_class(model_type, base)) for base in ("Fields", "Settings"))
    return Family(fields, (), settings, default_settings(model_type))


def accepted_values(declaring: Any) -> dict[str, Range]:
    """Return the values that the fields accept which a class declares; none without a class."""
    types = {} if declaring is None else field_types(declaring)
    return {name: range_of(annotation) for name, annotation in types.items()}


def _tokenizer_of(model_type: str) -> str:
    """Return the name of the tokenizer of a family in lower case."""
    return f"{model_type.replace('-', '')}tokenizer"


def family_of_tokenizer(content: Mapping[str, Any], model_type: str | None) -> Family | None:
    """Return the family of a tokenizer, by the class that its file names or else by the model's."""
    name = content.get("tokenizer_class")
    if isinstance(name, str):
        by_class = {_tokenizer_of(family): family for family in (*family_names(), *_others)}
        model_type = by_class.get(name.removesuffix("Fast").lower())
    return None if model_type is None else family_named(model_type)
