"""Writing of whole files: a killed process leaves no file under its name that is half written."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A leading underscore keeps a folder out of Trainer's uploads to the Hub.
STAGING = "_saving-"
UNFINISHED = ".hf-localattn-unfinished"
"""File that marks the output folder of an unfinished command."""


@contextmanager
def atomic_directory(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Provide a temporary folder, and move its files to `folder` one by one when the block ends without an error.

    If the block fails, `folder` is unchanged. Old weight files are removed if the new save does not replace them.

    Args:
        folder: Destination of the files, created if it does not exist.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    try:
        yield str(staging)
        fresh = sorted(path.relative_to(staging) for path in staging.rglob("*") if path.is_file())
        for name in fresh:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / name, folder / name)
        for stale in folder.glob("*.safetensors*"):
            if stale.relative_to(folder) not in fresh:
                stale.unlink()
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def atomic_write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file completely or not at all.

    Args:
        path: The file. Its folder is created if it does not exist.
        content: Bytes, or text to encode as UTF-8.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{STAGING}{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def discard(folder: Path) -> None:
    """Remove a folder. If the process is killed, the folder is complete or gone."""
    doomed = folder.with_name(f"{STAGING}{folder.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        os.replace(folder, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a killed process from a folder. No other process may be using the folder."""
    for left in folder.glob(f"{STAGING}*"):
        shutil.rmtree(left, ignore_errors=True)  # which does nothing to a file
        left.unlink(missing_ok=True)
