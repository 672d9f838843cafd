"""Checks of a stranger's tokenizer files: they name neither files nor Python objects."""

from __future__ import annotations

import json
import os


def check_tokenizer(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if a `tokenizer_config.json` names files or Python objects."""
    name = os.path.basename(path)
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} cannot be read: {error}.") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{name} is {str(settings)[:80]!r}; it must be an object of names and values.")
    for entry, value in settings.items():
        names_a_file = entry.endswith(("_file", "_files")) or entry in ("init_inputs", "tokenizer_object")
        # Many published files still name the source of their special tokens. This entry is not read.
        if names_a_file and value not in (None, []) and entry != "special_tokens_map_file":
            raise ValueError(
                f"{name}: `{entry}` is {str(value)[:80]!r}; a tokenizer is read from the files next to it: remove it."
            )
