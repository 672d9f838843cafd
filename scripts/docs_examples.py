"""Extension of griffe: show `Example:` sections of docstrings as programs, as it does with `Examples:`."""

from typing import Any

from griffe import Extension, Object


class Examples(Extension):
    """Rename the sections when the code is read."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Rename the section in the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
