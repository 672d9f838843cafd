"""Descriptions of fields and settings from their declarations, for docstrings and pages."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from textwrap import fill
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.fields import allowed, declarations, field_types

WIDTH = 119
TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def meanings(declaring: Any) -> dict[str, str]:
    """Return the meaning of each field or setting of a class, with the fields with which it takes effect."""
    return {
        name: declared.meaning + _condition(declaring, declared.when)
        for name, declared in declarations(declaring).items()
    }


def type_name(annotation: Any) -> str:
    """Return the name of a type as in the docstrings of transformers, such as "list of int"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return type_name(type(arguments[0]))
    if origin in (list, tuple):
        return f"list of {type_name(arguments[0])}"
    names = dict.fromkeys(type_name(argument) for argument in arguments if argument is not NoneType)
    return " or ".join(names) if arguments else TYPES[annotation]


def arguments(declaring: Any) -> str:
    """Return the section `Args` of the docstring of a configuration or tokenizer class."""
    is_config = issubclass(declaring, LocalAttentionConfig)
    inherited = {} if declaring is LocalAttentionConfig or not is_config else field_types(LocalAttentionConfig)
    entries = [("backbone_config", *_backbone(declaring))] if is_config else []
    types = field_types(declaring)
    for name, meaning in meanings(declaring).items():
        if name not in inherited:
            default = getattr(declaring, name)
            shown = f'"{default}"' if isinstance(default, str) else default
            ending = "" if default is None else f", defaults to {shown}"
            entries.append((name, f"{type_name(types[name])}, *optional*{ending}", meaning))
    lines = [_entry(f"{name} ({kind}): {meaning}") for name, kind, meaning in entries]
    if inherited:
        lines.append("    **kwargs: Fields of `LocalAttentionConfig` and `PreTrainedConfig`, such as `num_labels`.")
    return "\n".join(["Args:", *lines])


def document(declaring: Any) -> None:
    """Put the section `Args` into the docstring of a class, before `Raises` and `Example`."""
    text = inspect.cleandoc(declaring.__doc__ or f"{declaring.__name__}.")
    if "\nArgs:\n" in text:
        return
    places = [text.find(f"\n\n{section}:\n") for section in ("Raises", "Example")]
    place = min((place for place in places if place >= 0), default=len(text))
    declaring.__doc__ = f"{text[:place]}\n\n{arguments(declaring)}{text[place:]}"


def _backbone(config: type[LocalAttentionConfig]) -> tuple[str, str]:
    """Return type and meaning of the field with the backbone's configuration."""
    default = f'"{config.default_backbone}"' if config.model_type else "the family's default backbone"
    meaning = "Configuration of the pretrained encoder, or a dict with its `model_type`. It is copied."
    if config.generation_backbones:
        meaning = meaning.replace("encoder,", "encoder, or of the encoder-decoder for text generation,")
    return f"PreTrainedConfig or dict, *optional*, defaults to {default}", meaning


def _condition(declaring: Any, when: Mapping[str, Any]) -> str:
    """Return the fields with which a field takes effect, as a sentence; an empty text if other attributes decide."""
    types = field_types(declaring)
    parts = []
    for name in when.keys() & types.keys():
        values = [f'"{value}"' if isinstance(value, str) else str(value) for value in allowed(when[name])]
        parts.append(f"`{name}` {' or '.join(values) if len(values) < 3 else ', '.join(values)}")
    return f" Only for {' and '.join(sorted(parts))}." if parts else ""


def _entry(text: str) -> str:
    """Return an entry of a section, whose lines after the first are indented; lists keep their lines."""
    first, *others = text.split("\n")
    lines = [fill(first, WIDTH - 4, initial_indent="    ", subsequent_indent="        ")]
    lines += [
        fill(line, WIDTH - 4, initial_indent="        ", subsequent_indent="          ") if line else ""
        for line in others
    ]
    return "\n".join(lines)
