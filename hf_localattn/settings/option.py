"""Declaration of options: each is a field of a dataclass, with all that is known about it. Lists are filters."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, replace
from typing import Any, Final, Literal, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

FIXED: Final = "fixed"
FREE: Final = "free"
LENGTH: Final = "length"
GROWS: Final = "grows"

WORKS = "works"
OURS = "ours decides"
NEEDS = "needs another"
REFUSED = "refused"

_OPTION = "option"
_GROUP = "group"

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Option:
    """Declaration of an option. Its type, which has the allowed values, is the annotation of the field.

    Args:
        help: Text of `--help`.
        name: Name on the command line, without `--`; by default that of the field.
        aliases: Further names on the command line.
        default: Default of the field.
        unset: Value that is taken if an option without a default is not given.
        values: Type of pydantic with the allowed values, if the annotation has more.
        result: `FIXED` if it changes the result of a run; `FREE` if it does not, or negligibly; `LENGTH` if it may
            differ when a finished run is trained further; `GROWS` when a command of several runs is continued.
        searchable: `--search_space` can have it.
        recorded: It is in the record of a run, and on its card.
        column: It names a column of the data, which the record has for later predictions.
        shared: The runs of folds, seeds and trials get it from their command.
        planned: A table of the papers sets it for each of its runs.
        extra: Extra of the package that it needs.
        kind: What a run does with it (`WORKS`, `OURS`, `NEEDS`, `REFUSED`), if it is one of transformers.
        note: Text for the documentation, by default `help`. Of `NEEDS` and `REFUSED` it is also the error, after the
            name of the option.
        suits_arguments: Function of the training arguments that returns False if they contradict a given value.
        suits_task: Function of the `Use` by a task that returns False if it contradicts a given value. Before labels
            are known, a task may allow more than afterwards.
    """

    help: str = ""
    name: str = ""
    aliases: tuple[str, ...] = ()
    default: Any = None
    unset: Any = None
    values: Any = None
    result: Literal["fixed", "free", "length", "grows"] = FIXED
    searchable: bool = False
    recorded: bool = False
    column: bool = False
    shared: bool = True
    planned: bool = False
    extra: str | None = None
    kind: str | None = None
    note: str = ""
    suits_arguments: Callable[[Any], bool] | None = None
    suits_task: Callable[[Any], bool] | None = None

    @property
    def is_list(self) -> bool:
        """True if the option takes several words."""
        return isinstance(self.default, list)

    @property
    def full_help(self) -> str:
        """Help with the default."""
        if isinstance(self.unset, str):
            return f"{self.help.removesuffix('.')}; default: {self.unset}."
        return self.help if self.default is None or self.is_list else f"{self.help} (default: {self.default})"


def option(default: Any, help: str, **facts: Any) -> Any:
    """Declare a field of a dataclass as an option. `facts` are further arguments of `Option`.

    The default None marks an option that was not given.
    """
    metadata = {_OPTION: Option(help, default=default, **facts)}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def group(default: Any) -> Any:
    """Declare a field of a dataclass as a frozen dataclass of options, given with its defaults."""
    return field(default=default, metadata={_GROUP: True})


def declared(options: Class) -> Class:
    """Take options of groups as keyword arguments of a dataclass, too, and describe all options in its docstring."""
    made: Any = options
    build = made.__init__

    @functools.wraps(build)
    def take_options_of_groups(self: Any, *args: Any, **values: Any) -> None:
        types = types_of(made)
        for place, attribute, option in _walk(made):
            if place and option.name in values:
                value = read_value(option.name, values.pop(option.name), types[option.name])
                part = values.get(place, made.__dataclass_fields__[place].default)
                values[place] = replace(part, **{attribute.name: value})
        build(self, *args, **values)

    made.__init__ = take_options_of_groups
    entries = [f"    {attribute.name}: {option.full_help}" for place, attribute, option in _walk(made) if not place]
    made.__doc__ = "\n".join([inspect.cleandoc(made.__doc__ or ""), "\nArgs:", *entries])
    return options


def options_of(*classes: type) -> dict[str, Option]:
    """Return the options of dataclasses, those of their groups included, by name."""
    return {option.name: option for part in classes for _, _, option in _walk(part)}


@functools.cache
def types_of(part: Any) -> Mapping[str, Any]:
    """Return the types of the options of a dataclass, and of its other fields, by name."""
    types = get_type_hints(part, include_extras=True)
    named = {}
    for place, attribute, option in _walk(part):
        hints = get_type_hints(types[place], include_extras=True) if place else types
        named[option.name] = hints[attribute.name]
    return types | named


def values_of(options: Any) -> dict[str, Any]:
    """Return the values of a dataclass of options by name, with those of its groups as words have them."""
    fields = {part.name for part in dataclasses.fields(options) if _GROUP not in part.metadata}
    values = {name: value for name, value in vars(options).items() if name in fields}
    for place, attribute, option in _walk(type(options)):
        if place:
            value = getattr(getattr(options, place), attribute.name)
            values[option.name] = ",".join(value) if isinstance(value, tuple) else value
    return values


def read_value(name: str, value: Any, values: Any) -> Any:
    """Return a value, which may be given as a word, as one of a type of pydantic.

    Raises:
        ValueError: The type does not have the value. The message names the option.
    """
    try:
        return _adapter(values).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"--{name} is {value!r}. {error.errors()[0]['msg']}.") from None


def check_values(options: Any) -> None:
    """Raise `ValueError` if an option of a dataclass has a value that is not allowed."""
    part: Any = type(options)
    for place, attribute, option in _walk(part):
        if not place and (value := getattr(options, attribute.name)) != option.default:
            read_value(option.name, value, option.values or types_of(part)[option.name])


@functools.cache
def _adapter(values: Any) -> TypeAdapter[Any]:
    return TypeAdapter(values, config=ConfigDict(arbitrary_types_allowed=True))


def _walk(part: type) -> Iterator[tuple[str, Field[Any], Option]]:
    """Yield the group (or ""), the field and the declaration of each option of a dataclass."""
    for attribute in dataclasses.fields(part):
        if _GROUP in attribute.metadata:
            default = attribute.default
            for _, inner, option in _walk(type(default)):
                yield attribute.name, inner, replace(option, default=getattr(default, inner.name))
        elif _OPTION in attribute.metadata and attribute.init:
            option = attribute.metadata[_OPTION]
            yield "", attribute, replace(option, name=option.name or attribute.name)
