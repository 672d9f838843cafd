"""Declarations of fields: their meaning, the values that they accept, and when they take effect.

This file and the `fields_*.py` import only the standard library, so that fields can be read without torch.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, ForwardRef, Literal, NamedTuple, Union, get_args, get_origin


class Range(NamedTuple):
    """Values that a field accepts: a description for errors, and a test."""

    description: str
    holds: Callable[[Any], bool]

    def __repr__(self) -> str:
        return repr(self.description)


class Field(NamedTuple):
    """Facts about a field, in its annotation: `Annotated[TYPE, Field("MEANING.")]`.

    Attributes:
        meaning: Meaning of the field and of its values.
        when: Attributes of the configuration, and the value or tuple of values of each, with which the field takes
            effect. By default always.
        ablations: Values that the paper compares with the default.
    """

    meaning: str
    when: Mapping[str, Any] = {}
    ablations: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return "Field()"  # signatures of configurations show it

    def takes_effect(self, config: Any) -> bool:
        """Return True if the field takes effect with the other fields of a configuration."""
        return all(getattr(config, name) in allowed(values) for name, values in self.when.items())


Positive = Annotated[int, Range("a whole number of at least 1", lambda value: value >= 1)]
Count = Annotated[int, Range("a whole number of at least 0", lambda value: value >= 0)]
Probability = Annotated[float, Range("a number in [0, 1)", lambda value: 0 <= value < 1)]
NonNegative = Annotated[float, Range("a finite number of at least 0", lambda value: 0 <= value < math.inf)]

TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "null"}


@dataclass(kw_only=True, repr=False, eq=False)
class Fields:
    """Fields of all families. Those of a family are in a dataclass derived from this."""

    backbone_config: Any = None
    initializer_range: Annotated[
        NonNegative, Field("Standard deviation of the initial weights of new layers and heads.")
    ] = 0.02
    mlm_residual: Annotated[
        bool,
        Field(
            "In masked language modeling, add the projected features of the local layers to the backbone's states,"
            " instead of replacing them. The projection starts at zero, so the initial predictions are those of the"
            " backbone. Only for local layers outside the backbone."
        ),
    ] = False
    encoder_states: Annotated[
        Literal["last", "mix", "all"] | list[int],
        Field(
            'States of the encoder that the layers on top of it read: "last", of its last layer; "mix", a mean of all'
            ' layers with trained weights; "all", the states of all layers concatenated, or a list of layers, such as'
            " [0, 6, -1]. 0 are the word embeddings, 1 is the first layer, -1 the last. A frozen encoder is best read"
            ' with "mix". Only for local layers outside the backbone.'
        ),
    ] = "last"
    hf_localattn_version: Annotated[
        str | None, Field("Version of hf_localattn that saved the checkpoint; None for a new configuration.")
    ] = None


class Settings:
    """Settings of tokenizers. Those of a family are annotated attributes of a class derived from this."""


def as_in_files(value: Any) -> Any:
    """Return a value as JSON has it, with a list for a tuple."""
    return list(value) if isinstance(value, tuple) else value


def allowed(values: Any) -> tuple[Any, ...]:
    """Return the values of an entry of `Field.when`."""
    return values if isinstance(values, tuple) else (values,)


def range_of(annotation: Any) -> Range:
    """Return the values that fit an annotation."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Literal:
        return Range(f"one of {', '.join(map(repr, arguments))}", lambda value: value in arguments)
    if origin is Annotated:
        base, *notes = arguments
        values = range_of(base)
        limits = next((note for note in notes if isinstance(note, Range)), values)
        return Range(limits.description, lambda value: values.holds(value) and limits.holds(value))
    if origin in (Union, UnionType):
        choices = [range_of(argument) for argument in arguments]
        description = " or ".join(choice.description for choice in choices)
        return Range(description, lambda value: any(choice.holds(value) for choice in choices))
    if origin in (list, tuple):  # files have lists for tuples
        entries = range_of(arguments[0])
        description = f"a list, each entry {entries.description}"
        return Range(description, lambda value: isinstance(value, list | tuple) and all(map(entries.holds, value)))
    if annotation is bool:
        return Range(TYPES[bool], lambda value: isinstance(value, bool))
    types = (int, float) if annotation is float else annotation
    return Range(TYPES[annotation], lambda value: isinstance(value, types) and not isinstance(value, bool))


@cache
def field_types(declaring: Any) -> dict[str, Any]:
    """Return the types of the fields of a configuration class, or of the settings of a tokenizer class, by name."""
    types: dict[str, Any] = {}
    for base in reversed(declaring.__mro__):
        if issubclass(base, Fields | Settings):
            types |= declared_types(base)
    return types


def values_of(annotation: Any) -> tuple[Any, ...]:
    """Return the values of the `Literal` in an annotation, if there is one."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def declaration(annotation: Any) -> Field | None:
    """Return the `Field` in an annotation, if there is one."""
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((note for note in notes if isinstance(note, Field)), None)


def declarations(declaring: Any) -> dict[str, Field]:
    """Return the declarations of fields or settings that have one, by name."""
    declared = {name: declaration(annotation) for name, annotation in field_types(declaring).items()}
    return {name: field for name, field in declared.items() if field is not None}


def declared_types(declaring: type) -> dict[str, Any]:
    """Return the types of the fields that a class itself declares, by name.

    A text in a type is a `TypeError`: evaluating it would run code.
    """
    types = {}
    for name, annotation in inspect.get_annotations(declaring).items():
        parts = () if get_origin(annotation) is Literal else get_args(annotation)
        if any(isinstance(part, (str, ForwardRef)) for part in (annotation, *parts)):
            raise TypeError(
                f"The type of `{name}` has the text {annotation!r}. Write the type, in a file without"
                " `from __future__ import annotations`."
            )
        if annotation not in (Any, ClassVar) and get_origin(annotation) is not ClassVar:
            types[name] = annotation
    return types


def check_types(fields: Any, types: Mapping[str, Any]) -> None:
    """Raise `ValueError` for the first attribute whose value does not fit its annotation."""
    for name, annotation in types.items():
        value = getattr(fields, name)
        accepted = range_of(annotation)
        if not accepted.holds(value):
            raise ValueError(f"`{name}` is {value!r}; it must be {accepted.description}.")
