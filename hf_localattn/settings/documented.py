"""Help of options, which is the docstring of the dataclass that declares them."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from types import MappingProxyType
from typing import TypeVar

Arguments = TypeVar("Arguments", bound=type)


def documented(arguments: Arguments) -> Arguments:
    """Take the help of each option from the section `Args` of a dataclass's docstring.

    Args:
        arguments: The dataclass. Inherited fields that the docstring does not name keep their help.
    """
    docstring = inspect.cleandoc(arguments.__doc__ or "")
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    helps = {name: " ".join(text.split()).replace("%", "%%") for name, text in entries}
    for option in fields(arguments):
        if option.name in helps:
            option.metadata = MappingProxyType({**option.metadata, "help": helps[option.name]})
    return arguments
