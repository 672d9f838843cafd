"""Kinds of values that entries of a checkpoint may have, by the names in the rules of `policy_table.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hf_localattn.installed.policy_table import ATTENTIONS, TOKENIZERS
from hf_localattn.names import default_fields, default_settings, family_names

FILE = re.compile(r"[\w.-]+")  # a name without a folder
ADDED_TOKEN = {"__type", "content", "id", "lstrip", "normalized", "rstrip", "single_word", "special"}


class Kind(NamedTuple):
    """Values that an entry may have."""

    description: str
    holds: Callable[[Any], bool]


def is_data(value: Any, levels: int = 8) -> bool:
    """Return True for plain values, and lists of them."""
    if isinstance(value, list | tuple):
        return levels > 0 and all(is_data(part, levels - 1) for part in value)
    if isinstance(value, dict):  # infinity and NaN, as transformers writes them
        return value.keys() == {"__float__"} and isinstance(value["__float__"], str)
    return value is None or isinstance(value, bool | int | float | str)


def _is_token(value: Any) -> bool:
    if isinstance(value, dict):
        is_token = isinstance(value.get("content"), str) and value.keys() <= ADDED_TOKEN
        return is_token and all(map(is_data, value.values()))
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
    return not isinstance(value, dict) or all(str(name).isdecimal() for name in value)


def _are_labels(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(part, str | int) for part in value.values()))


def are_shards(value: Any) -> bool:
    """Return True for names of safetensors files by weight."""
    return isinstance(value, dict) and all(
        isinstance(shard, str) and FILE.fullmatch(shard) and shard.endswith(".safetensors") for shard in value.values()
    )


KINDS: Mapping[str, Kind] = {
    "attention": Kind(f"one of {', '.join(ATTENTIONS)}", _is_attention),
    "code": Kind("names of classes", _is_code),
    "data": Kind("a number, a text, true, false, null, or a list of these", is_data),
    "length": Kind("a whole number above 0", lambda value: value is None or (type(value) is int and value > 0)),
    "names": Kind("a list of names of classes", are_names),
    "labels": Kind("an object of labels", _are_labels),
    "labels by number": Kind(
        "an object of labels by number", lambda value: _are_labels(value) and _has_numbers(value)
    ),
    "limit": Kind("a number above 0", lambda value: value is None or (type(value) in (int, float) and value > 0)),
    "object": Kind("an object", lambda value: isinstance(value, dict | None)),
    "template": Kind("a text, or several by name", are_templates),
    "text": Kind("a text", lambda value: isinstance(value, str | None)),
    "token": Kind("a token", _is_token),
    "tokenizer": Kind("a tokenizer that needs no library besides tokenizers", _is_tokenizer),
    "tokens": Kind("a list or an object of tokens", _are_tokens),
    "tokens by number": Kind(
        "an object of tokens by number",
        lambda value: isinstance(value, dict | None) and _are_tokens(value) and _has_numbers(value),
    ),
    "weights": Kind("an object with the name of a safetensors file beside it for each weight", are_shards),
}


class Family(NamedTuple):
    """Entries that checkpoints of a family may set, besides those of all models."""

    fields: frozenset[str]
    backbones: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = MappingProxyType({})  # of its tokenizer, with their defaults


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
    return Family(frozenset(default_fields(model_type)), settings=default_settings(model_type))


def _tokenizer_of(model_type: str) -> str:
    """Return the name of the tokenizer of a family in lower case."""
    return f"{model_type.replace('-', '')}tokenizer"


def settings_of(content: Mapping[str, Any], model_type: str | None) -> Mapping[str, Any]:
    """Return the settings of a tokenizer, with their defaults, by the class that its file names or by its family."""
    name = content.get("tokenizer_class")
    if isinstance(name, str):
        by_class = {_tokenizer_of(family): family for family in (*family_names(), *_others)}
        model_type = by_class.get(name.removesuffix("Fast").lower())
    return {} if model_type is None else family_named(model_type).settings
