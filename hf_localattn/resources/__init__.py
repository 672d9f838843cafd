"""Tiny backbones, a tiny parser, a reading set and samples of the corpora's formats, shipped with the package.

But for the samples they are written by `scripts/make_resources.py`.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

FOLDER = Path(str(files(__name__)))
"""Folder of the files."""


def tiny_backbone(*, generates: bool = False) -> Path:
    """Folder of a small random BERT (2 layers, width 64, 0.2 M parameters) with its fast tokenizer.

    With `generates` of a BART of this size, which reads and writes the same vocabulary.
    """
    return FOLDER / ("tiny-bart" if generates else "tiny-bert")


def tiny_parser() -> Path:
    """Folder of a spaCy pipeline that parses a few sentences rightly, and others somehow: for trying things out."""
    return FOLDER / "tiny-parser"


def reading_comprehension() -> dict[str, Path]:
    """Files of a small question-answering set in SQuAD's layout: "train" and "validation".

    All names fill all roles equally often and no sentence is in both, so that only neighboring words tell the answer.
    """
    return {half: FOLDER / "reading" / f"{half}.json" for half in ("train", "validation")}
