"""Extension of griffe: show docstrings in the style of transformers as the reference does with others."""

import inspect
import re
from importlib import import_module
from typing import Any

from griffe import Extension, Function, Object, Parameter, Parameters

OPTIONAL = re.compile(r"^( +)(\w+)(?: \((?:(.*?), )?\*optional\*(?:, defaults to (.*?))?\)):(?=\s)", re.MULTILINE)
"""Indentation, name, type and default of an optional argument."""


class Docstrings(Extension):
    """Rewrite docstrings when the code is read."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Show `Example:` sections as programs; move defaults from the type to a column of their own.

        Configurations inherit their `__init__`, so their defaults are known only from the docstring.
        """
        if obj.docstring is None:
            return
        if obj.name.endswith(("Config", "Tokenizer")) and obj.is_class:  # completed when the package is imported
            module = import_module(obj.module.path)
            obj.docstring.value = inspect.cleandoc(getattr(module, obj.name).__doc__)
        text = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
        if obj.name.endswith("Config"):
            fields = [Parameter(name, default=value or "None") for _, name, _, value in OPTIONAL.findall(text)]
            obj.set_member("__init__", Function("__init__", parameters=Parameters(*fields)))
        obj.docstring.value = OPTIONAL.sub(lambda found: f"{found[1]}{found[2]}{_type(found[3])}:", text)


def _type(text: str | None) -> str:
    return f" ({text})" if text else ""
