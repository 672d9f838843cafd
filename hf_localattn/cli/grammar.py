"""Options with several values, for `hf-localattn reproduce` alone: goes with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

ASSIGNMENT = "NAME=VALUE..."
"""Metavar of options whose values end at the first word that is not an assignment."""


class Command(TyperCommand):
    """A command with the option syntax of the training scripts.

    Options that can be repeated take several values: `--args a=1 b=2`. Long options may have underscores.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = {name: one for one in self.get_params(ctx) if isinstance(one, TyperOption) for name in one.opts}
        return super().parse_args(ctx, expand_values(args, options))


def several(name: str, metavar: str, help: str) -> Any:
    """Return an option that takes one or more values; an option with a metavar in brackets may take none."""
    return typer.Option(name, metavar=metavar, help=help)


def expand_values(words: Sequence[str], options: Mapping[str, TyperOption]) -> list[str]:
    """Rewrite the words of a command for click, with current names of options and one value per option.

    `--config a=1 b=2 TEXT` becomes `--config a=1 --config b=2 TEXT`. Values end at the next option. Assignments also
    end at the next word without an equals sign. The first word after an option is always taken as its value, so that
    error messages can name it.

    Args:
        words: words of the command line.
        options: options of the command by name.

    Raises:
        ValueError: an option has no value.
    """
    found: list[str] = []
    current, count = "", 0  # the current option, and the number of its values so far

    def complete() -> None:
        if current and not count and _may_be_empty(options[current]):
            found.extend([current, ""])
        elif current and not count:
            raise ValueError(f"{current} needs a value.")

    for position, word in enumerate(words):
        if word == "--":
            complete()
            return [*found, *words[position:]]
        name, equals, value = word.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in options:
            complete()
            takes_words = not equals and not options[name].is_flag
            current, count = name if takes_words else "", 0
            if not takes_words:
                found.append(f"{name}{equals}{value}")
        elif current and (not count or _takes_further(options[current], word)):
            found += [current, word]
            count += 1
        else:
            current = ""
            found.append(word)
    complete()
    return found


def _may_be_empty(option: TyperOption) -> bool:
    return (option.metavar or "").startswith("[")


def _takes_further(option: TyperOption, word: str) -> bool:
    if not option.multiple or word.startswith("-"):
        return False
    return option.metavar != ASSIGNMENT or re.match(r"[\w.-]+=", word) is not None
