"""Tiny spaCy pipelines for tests, trained where they are asked for."""

import functools
import shutil
import tempfile
from pathlib import Path

from tests.tiny_parser import train_tiny_parser


@functools.cache
def tiny_parser(language: str = "en") -> str:
    """Folder of a tiny pipeline, trained once in this process and gone with it."""
    folder = tempfile.TemporaryDirectory(prefix="tiny-parser-")
    _KEPT.append(folder)
    return str(train_tiny_parser(Path(folder.name) / language, language))


_KEPT: list[tempfile.TemporaryDirectory] = []


def install_distribution(folder: Path, name: str, code: str, *, version: str = "1.0", entry_points: str = "") -> None:
    """Write a module and the metadata of its distribution into a folder for `sys.path`, as pip would."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    for old in folder.glob(f"{name}-*.dist-info"):
        shutil.rmtree(old)
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def install_pipeline(folder: Path, name: str, pipeline: str, *, version: str = "1.0") -> None:
    """Install a spaCy pipeline as its wheel does: a package that loads it, declared as an entry point."""
    code = f"import spacy\n\n\ndef load(**settings):\n    return spacy.load({pipeline!r}, **settings)\n"
    declared = f"[spacy_models]\n{name} = {name}\n"
    install_distribution(folder, name, code, version=version, entry_points=declared)
