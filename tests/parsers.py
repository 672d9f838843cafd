"""Tiny spaCy pipelines for tests, trained where they are asked for."""

import functools
import tempfile
from pathlib import Path

from scripts.tiny_parser import train_tiny_parser


@functools.cache
def tiny_parser(language: str = "en") -> str:
    """Folder of a tiny pipeline, trained once in this process and gone with it."""
    folder = tempfile.TemporaryDirectory(prefix="tiny-parser-")
    _KEPT.append(folder)
    return str(train_tiny_parser(Path(folder.name) / language, language))


_KEPT: list[tempfile.TemporaryDirectory] = []
