"""Tiny backbones, a tiny parser, a small question-answering set, and samples of all file formats."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

FOLDER = Path(str(files(__name__)))
"""Folder with these files."""

NEGATION = FOLDER / "negation-en"
"""Folder of the package's own model of negation."""


def tiny_backbone(*, generates: bool = False) -> Path:
    """Return the folder of a tiny random BERT (2 layers, width 64, 0.2 M parameters) and its fast tokenizer.

    Args:
        generates (*optional*, defaults to False): If True, return a BART of this size with the same vocabulary.

    Example:
        >>> from hf_localattn.resources import tiny_backbone
        >>> tiny_backbone().name
        'tiny-bert'
    """
    return FOLDER / ("tiny-bart" if generates else "tiny-bert")


NAMED_BACKBONES = {"tiny": str(tiny_backbone()), "tiny-bart": str(tiny_backbone(generates=True))}
"""Folders of the tiny backbones by the names that commands and `from_backbone` accept."""


def tiny_parser() -> Path:
    """Return the folder of a tiny spaCy parser for examples. It is correct only on its training sentences."""
    return FOLDER / "tiny-parser"


def reading_comprehension() -> dict[str, Path]:
    """Return the files of a small question-answering set in SQuAD's format, by split ("train" and "validation").

    All names have all roles equally often, and the splits share no sentence. A model can therefore answer only from
    the words next to a name.
    """
    return {half: FOLDER / "samples" / "reading" / f"{half}.json" for half in ("train", "validation")}
