"""Declaration of options: each is a field of a dataclass, with all that is known about it.

Lists of options are filters over `options_of`, or over `all_options` of `hf_localattn.settings.stock`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

FIXED: Final = "fixed"
FREE: Final = "free"
LENGTH: Final = "length"
GROWS: Final = "grows"

Result = Literal["fixed", "free", "length", "grows"]
"""Effect of an option on the result of a run: `FIXED` changes it; `FREE` does not, or negligibly; `LENGTH` may differ
if a finished run is trained further; `GROWS` may differ when a command of several runs is continued."""

WORKS = "works"
OURS = "ours decides"
NEEDS = "needs another"
REFUSED = "refused"

KINDS = {
    WORKS: "It does in every task what transformers documents.",
    OURS: "The package sets it, or has a default or a meaning of its own.",
    NEEDS: "It works with another option, library, device, task or label; without it the run is refused.",
    REFUSED: "A value other than the default is refused.",
}
"""Treatments of transformers' training arguments, and their meaning."""

ANY_TYPE = ConfigDict(arbitrary_types_allowed=True)

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
        values: Type of pydantic with the allowed values, if the field is one of transformers.
        result: Effect on the result of a run.
        searchable: `--search_space` can have it.
        recorded: Field of `TrainingRecord` that has it, for the model card, *optional*.
        shared: The runs of folds, seeds and trials get it from their command.
        extra: Extra of the package that it needs.
        kind: A key of `KINDS`, if it is a training argument of transformers.
        note: Text for the documentation. Of `NEEDS` and `REFUSED` it is also the error, after the name of the option.
        suits_arguments: Function of the training arguments that returns False if they contradict a given value,
            *optional*.
        suits_task: Function of the `Use` by a task that returns False if it contradicts a given value, *optional*.
            Before the labels are known, a task may allow more than afterwards.
    """

    help: str = ""
    name: str = ""
    aliases: tuple[str, ...] = ()
    default: Any = None
    unset: Any = None
    values: Any = None
    result: Result = "fixed"
    searchable: bool = False
    recorded: Literal["", "hyperparameters", "columns"] = ""
    shared: bool = True
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
    """Declare a field of a dataclass as an option.

    Args:
        default: Default. None marks an option that was not given.
        help: Text of `--help`.
        **facts: Further arguments of `Option`.
    """
    metadata = {_OPTION: Option(help, default=default, **facts)}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(default: Any) -> Any:
    """Declare a field of a dataclass as a frozen dataclass of options, with names of their own.

    Args:
        default: Instance with the defaults.
    """
    return field(default=default, metadata={_GROUP: type(default)})


def declared(options: Class) -> Class:
    """Complete a dataclass of options: options of its groups are keyword arguments, too, and its docstring has `Args`.

    Args:
        options: The dataclass.
    """
    made: Any = options
    groups = _groups_of(options)
    if groups:
        build = made.__init__

        @functools.wraps(build)
        def take_options_of_groups(self: Any, *args: Any, **given: Any) -> None:
            for name, part in groups.items():
                types = types_of(part)
                known = {option.name: field.name for option, field in _fields_of(part) if option.name in given}
                values = {field: read_value(name, given.pop(name), types[name]) for name, field in known.items()}
                given[name] = replace(given.get(name, made.__dataclass_fields__[name].default), **values)
            build(self, *args, **given)

        made.__init__ = take_options_of_groups
    entries = "\n".join(f"    {f.name}: {o.full_help}" for o, f in _fields_of(options))
    options.__doc__ = f"{inspect.cleandoc(options.__doc__ or '')}\n\nArgs:\n{entries}\n"
    return options


def options_of(*classes: type) -> dict[str, Option]:
    """Return the options of dataclasses, those of their groups included, by name."""
    options: dict[str, Option] = {}
    for part in classes:
        options |= {known.name: known for known, _ in _fields_of(part)} | options_of(*_groups_of(part).values())
    return options


@functools.cache
def types_of(part: Any) -> Mapping[str, Any]:
    """Return the type of each option and field of a dataclass, those of its groups included, by name."""
    hints = get_type_hints(part, include_extras=True)
    names = {f.name: o.name for o, f in _fields_of(part)}
    types = {names.get(name, name): hint for name, hint in hints.items()}
    for options in _groups_of(part).values():
        types |= dict(types_of(options))
    return types


def values_of(options: Any) -> dict[str, Any]:
    """Return the values of a dataclass of options by name, with those of its groups, as JSON has them."""
    groups = _groups_of(type(options))
    names = {f.name: o.name for o, f in _fields_of(type(options))}
    values: dict[str, Any] = {}
    for known in dataclasses.fields(options):
        value = getattr(options, known.name)
        if known.name in groups:
            of_group = {f.name: o.name for o, f in _fields_of(type(value))}
            values |= {name: _plain(getattr(value, attribute)) for attribute, name in of_group.items()}
        elif known.name in vars(options):  # not the default of a field that is no option
            values[names.get(known.name, known.name)] = value
    return values


def given_of(options: Any) -> dict[str, Any]:
    """Return the values of a dataclass that differ from its defaults, by name of the field."""
    usual = type(options)()
    values = {known.name: getattr(options, known.name) for known in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def chosen(options: Any, attribute: str) -> Any:
    """Return the value of an option, or the one that is taken if it is not given."""
    value = getattr(options, attribute)
    if value is not None:
        return value
    return options.__dataclass_fields__[attribute].metadata[_OPTION].unset


def read_value(name: str, value: Any, values: Any) -> Any:
    """Return a value as one of a type of pydantic, which may be given as a word.

    Raises:
        ValueError: The type does not have the value. The message names the option.
    """
    try:
        return _adapter(values).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"--{name} is {value!r}. {error.errors()[0]['msg']}.") from None


def check_values(options: Any) -> None:
    """Check each option of a dataclass by itself.

    Raises:
        ValueError: A value is not allowed.
    """
    part: Any = type(options)
    for known, attribute in _fields_of(part):
        value = getattr(options, attribute.name)
        if value != known.default:
            read_value(known.name, value, known.values or types_of(part)[known.name])


@functools.cache
def _adapter(values: Any) -> TypeAdapter[Any]:
    return TypeAdapter(values, config=ANY_TYPE)


def _fields_of(part: type) -> list[tuple[Option, Any]]:
    """Return the options of a dataclass with their fields, without those of its groups."""
    known = []
    for attribute in dataclasses.fields(part):
        if _OPTION in attribute.metadata and attribute.init:
            declaration = attribute.metadata[_OPTION]
            default = attribute.default if attribute.default is not dataclasses.MISSING else declaration.default
            known.append((replace(declaration, name=declaration.name or attribute.name, default=default), attribute))
    return known


def _groups_of(part: type) -> dict[str, type]:
    return {known.name: known.metadata[_GROUP] for known in dataclasses.fields(part) if _GROUP in known.metadata}


def _plain(value: Any) -> Any:
    """Return a value of a frozen dataclass as a word has it."""
    return (",".join(value) or None) if isinstance(value, tuple) else value
