"""Command lines to share, made from arguments by name and without paths of this machine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_localattn.studies.search_settings import spoken

PACKAGE = Path(__file__).resolve().parent.parent


def assignments(values: Mapping[str, Any]) -> list[str]:
    """Return values by name as `name=value`."""
    return [f"{name}={spoken(value)}" for name, value in values.items()]


def to_cli_args(arguments: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line.

    Args:
        arguments: by name. Lists are several words, mappings `name=value` each. None and empty mappings are left out.
    """
    words = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            words += [f"--{name}", *assignments(value)] if value else []
        elif value is not None:
            words += [f"--{name}", *map(spoken, value if isinstance(value, list | tuple) else [value])]
    return words


def to_command_line(arguments: Mapping[str, Any]) -> str:
    """Return arguments for a shell, without the folders of this machine.

    `$DATA` is a folder that holds all data, encoders and parsers. Files that ship are named relative to the scripts.
    """
    return " ".join(map(_shell_word, to_cli_args(arguments)))


def _shell_word(word: str) -> str:
    told = _portable(word)
    return f'"{told}"' if "$" in told else shlex.quote(told)


def _portable(word: str) -> str:
    name, equals, value = word.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return word
    if path.is_relative_to(PACKAGE):
        return f"{name}{equals}{path.relative_to(PACKAGE.parent)}"
    end = Path(path.parent.name, path.name) if path.is_file() else path.name
    return f"{name}{equals}$DATA/{end}"
