"""Parsers that only a checkpoint names.

spaCy imports any installed package by its name and loads any folder, and both may run code.
"""

from __future__ import annotations

import re
from typing import Any

from hf_localattn.models.sla_parser import (
    ENTRY_POINTS,
    WITHOUT_PARSER,
    declaration_of,
    download_hint,
    import_spacy,
)

BY_CALLER = (
    "To use another pipeline, or a folder that you trust, name it yourself:"
    " `AutoTokenizer.from_pretrained(CHECKPOINT, parser=NAME_OR_FOLDER)`, in scripts `--local_config"
    " parser=NAME_OR_FOLDER`, in `hf-localattn inspect` `--config parser=NAME_OR_FOLDER`."
)


def load_declared(parser: str) -> Any:
    """Load a spaCy pipeline only if an installed distribution declares it.

    Raises:
        ValueError: The parser is a folder.
        OSError: No installed distribution declares the pipeline, or it is broken.
    """
    declared = declaration_of(parser)
    if declared is None and not re.fullmatch(r"\w+", parser):
        raise ValueError(
            f"The checkpoint names the parser {parser!r}, which is not the name of an installed spaCy pipeline. A"
            f" folder that only a checkpoint names is not loaded, because it may run code. {BY_CALLER}"
        )
    if declared is None:
        raise OSError(
            f"The checkpoint names the parser {parser!r}, which no installed distribution declares as a spaCy"
            f" pipeline (entry points of the group {ENTRY_POINTS!r}).{download_hint(parser)} {BY_CALLER}"
            f" {WITHOUT_PARSER}"
        )
    import_spacy()
    try:
        return declared.load().load()
    except (ImportError, AttributeError) as error:
        raise OSError(
            f"The distribution that declares the spaCy pipeline {parser!r} is broken ({error}): reinstall it."
        ) from error
