"""Reading of options, from words or a file, into the dataclasses that declare them.

Neither torch nor transformers is imported, so that a misspelt option is an error at once.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from hf_localattn.parsing import read_json
from hf_localattn.training.options import FIELDS

ANY_TYPE = ConfigDict(arbitrary_types_allowed=True)

Arguments = TypeVar("Arguments", bound=type)


def documented(arguments: Arguments) -> Arguments:
    """Take the help of each option from the section `Args` of a dataclass's docstring.

    Args:
        arguments: dataclass. Inherited fields that the docstring does not name keep their help.
    """
    docstring = inspect.cleandoc(arguments.__doc__ or "")
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    helps = {name: " ".join(text.split()).replace("%", "%%") for name, text in entries}
    for option in fields(arguments):
        if option.name in helps:
            option.metadata = MappingProxyType({**option.metadata, "help": helps[option.name]})
    return arguments


def read_options(classes: Iterable[type], arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options that words or a .json file give, by name. `build_arguments` reads their values.

    Args:
        classes: dataclasses whose fields are the options, besides the training arguments of transformers.
        arguments: words of the command line, or only the path of a .json file.

    Raises:
        ValueError: an option does not exist, or the file cannot be read.
        FileNotFoundError: the file does not exist.
    """
    declared = _options_of(classes)
    names = [*declared, *(FIELDS.keys() - declared.keys())]
    if len(arguments) == 1 and arguments[0].endswith(".json"):
        options = read_json(arguments[0])
        _check_names(options, names)
        return options
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in names:
        aliases = declared[name].metadata.get("aliases", ()) if name in declared else ()
        spellings = {f"--{name}", f"--{name.replace('_', '-')}", *aliases}
        parser.add_argument(*spellings, dest=name, nargs="*", default=argparse.SUPPRESS)
    words = [re.sub(r"^--no[-_](.+)", r"--\1=false", word) for word in arguments]
    values, unknown = parser.parse_known_args(words)
    if unknown and unknown[0].endswith(".json"):
        raise ValueError(f"A file of options stands alone: move the other options into {unknown[0]}.")
    _check_names(unknown, names)
    lists = {name for name, option in declared.items() if option.default_factory is list}
    return {name: own if name in lists else _value_of(own) for name, own in vars(values).items()}


def build_arguments(classes: Sequence[type], options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Build one instance of each dataclass from options by name. Words are read as values of the option's type.

    Raises:
        ValueError: an option does not exist or has an invalid value.
    """
    _check_names(options, _options_of(classes))
    hints = {name: hint for arguments in classes for name, hint in get_type_hints(arguments).items()}
    values = {name: _read_value(name, value, hints[name]) for name, value in options.items()}
    instances = []
    for arguments in classes:
        names = values.keys() & _options_of([arguments])
        instances.append(arguments(**{name: values[name] for name in names}))
    return tuple(instances)


def _options_of(classes: Iterable[type]) -> dict[str, Field[Any]]:
    return {option.name: option for arguments in classes for option in fields(arguments) if option.init}


def _check_names(options: Iterable[str], names: Collection[str]) -> None:
    """Raise `ValueError` for the first option that does not exist, with the nearest name."""
    for option in options:
        name = option.lstrip("-").partition("=")[0].replace("-", "_")
        if name not in names:
            nearest = difflib.get_close_matches(name, names, 1)
            remedy = f" Did you mean --{nearest[0]}?" if nearest else ""
            raise ValueError(f"Unknown option {option}.{remedy}")


def _value_of(words: list[str]) -> Any:
    """Return the only word of an option, or all; True for an option without words."""
    if not words:
        return True
    return words[0] if len(words) == 1 else words


def _read_value(name: str, value: Any, hint: Any) -> Any:
    """Return a value of the type of an option."""
    types = get_args(hint) or (hint,)
    if value is True and bool not in types:
        raise ValueError(f"--{name} needs a value.")
    try:
        return TypeAdapter(hint, config=ANY_TYPE).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"--{name} is {value!r}. {error.errors()[0]['msg']}.") from None
