"""Reading of options, from words or a file, into the dataclasses that declare them.

Neither torch nor transformers is imported, so that a misspelt option is an error at once.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

from hf_localattn.parsing import read_json
from hf_localattn.settings.option import Option, options_of, read_value, types_of
from hf_localattn.settings.stock import STOCK, all_options

HELP_ALL = "--help-all"


def read_options(classes: Iterable[type], arguments: Sequence[str], program: str | None = None) -> dict[str, Any]:
    """Return the options that words or a .json file give, by name. `build_arguments` reads their values.

    `--help` prints the options and ends the program.

    Args:
        classes: Dataclasses whose fields are the options, besides those of transformers.
        arguments: Words of the command line, or only the path of a .json file.
        program (*optional*): Name of the program for `--help`.

    Raises:
        ValueError: An option does not exist, or the file cannot be read.
        FileNotFoundError: The file does not exist.
    """
    declared = options_of(*classes)
    names = all_options(*classes)
    if len(arguments) == 1 and arguments[0].endswith(".json"):
        options = read_json(arguments[0])
        _check_names(options, names)
        return options
    words = [_plain(word) for word in arguments]
    parser = _parser(declared, program, everything=HELP_ALL in words)
    values, unknown = parser.parse_known_args(words)
    if unknown and unknown[0].endswith(".json"):
        raise ValueError(f"A file of options stands alone: move the other options into {unknown[0]}.")
    if unknown:
        raise _unknown(unknown[0], names)
    return vars(values)


def _parser(declared: Mapping[str, Option], program: str | None, *, everything: bool) -> argparse.ArgumentParser:
    """Return a parser that takes words as they are. An option without a word is True."""
    parser = argparse.ArgumentParser(
        program,
        usage="%(prog)s [OPTIONS], or a .json file of options",
        epilog=f"{HELP_ALL} lists all options of transformers' TrainingArguments, which documents them.",
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("-h", "--help", HELP_ALL, action="help", help="Show the options and exit.")
    for name, option in declared.items():
        _add(parser, name, option, option.full_help)
    for name, option in STOCK.items():
        _add(parser, name, option, f"{option.help} {option.note}" if option.help or everything else argparse.SUPPRESS)
    return parser


def _add(parser: argparse.ArgumentParser, name: str, option: Option, help: str) -> None:
    words: dict[str, Any] = {"nargs": "*"} if option.is_list else {"nargs": "?", "const": True}
    parser.add_argument(f"--{name}", *option.aliases, dest=name, help=help.replace("%", "%%"), **words)


def _plain(word: str) -> str:
    """Return a word of the command line with `--train-file` as `--train_file`, and `--no_x` as `--x=false`."""
    name, separator, value = word.partition("=")
    if not name.startswith("--") or name == HELP_ALL:
        return word
    name = name[2:].replace("-", "_")
    if name.startswith("no_"):
        return f"--{name[3:]}=false"
    return f"--{name}{separator}{value}"


def build_arguments(classes: Sequence[type], options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Build one instance of each dataclass from options by name. Words are read as values of the option's type.

    Raises:
        ValueError: An option does not exist or has an invalid value.
    """
    names = {part: all_options(part).keys() & types_of(part).keys() for part in classes}
    _check_names(options, [name for of_class in names.values() for name in of_class])
    types = {name: hint for part in classes for name, hint in types_of(part).items()}
    values = {name: _read(name, value, types[name]) for name, value in options.items()}
    return tuple(part(**{name: values[name] for name in names[part] if name in values}) for part in classes)


def _check_names(options: Iterable[str], names: Collection[str]) -> None:
    """Raise `ValueError` for the first option that does not exist."""
    for name in options:
        if name not in names:
            raise _unknown(name, names)


def _unknown(option: str, names: Collection[str]) -> ValueError:
    nearest = difflib.get_close_matches(option.lstrip("-").partition("=")[0], names, 1)
    remedy = f" Did you mean --{nearest[0]}?" if nearest else ""
    return ValueError(f"Unknown option {option}.{remedy}")


def _read(name: str, value: Any, hint: Any) -> Any:
    """Return a value of the type of an option."""
    types = get_args(hint) or (hint,)
    if value is True and bool not in types:
        raise ValueError(f"--{name} needs a value.")
    return read_value(name, value, hint)
