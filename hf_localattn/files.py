"""Writing of whole files, and locks on folders.

A killed process leaves no file under its name that is half written, and two processes never write to a folder at the
same time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

# A leading underscore keeps a folder out of Trainer's uploads to the Hub.
STAGING = "_saving-"
UNFINISHED = ".hf-localattn-unfinished"
"""File that marks the output folder of an unfinished command."""

LOCK = ".hf-localattn.lock"
"""Name of the lock file in a folder. A killed process leaves the file, but not the lock."""

A_LINK = "it is a link out of the folder, or no file: replace it with the file."
"""Problem of a path that is not `is_regular`, and its remedy."""


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


@contextmanager
def claimed(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a folder for this process. The process may lock the same folder again in nested blocks.

    Args:
        folder: Folder, created if it does not exist. A new folder that is empty at the end is removed.

    Raises:
        ValueError: Another process has locked the folder, or it is a file.
    """
    path = Path(folder).resolve()
    lock = FileLock(path / LOCK, blocking=False, is_singleton=True, thread_local=False)
    while True:
        if path.exists() and not path.is_dir():
            raise ValueError(f"{folder} is a file; choose a folder.")
        new_folders = [parent for parent in (path, *path.parents) if not parent.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            break
        except (FileNotFoundError, FileExistsError):  # another process has just removed the empty folder
            continue
        except Timeout:
            raise ValueError(
                f"{folder} is in use by another process. Wait until it has ended, or choose another folder."
            ) from None
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            (path / LOCK).unlink(missing_ok=True)  # while it is locked
        lock.release()
        with suppress(OSError):  # raised if a folder is not empty
            for new_folder in new_folders:
                new_folder.rmdir()


def is_regular(path: Path, folder: Path) -> bool:
    """Return True for folders and files, and for links of a snapshot in the Hub's cache to its blobs.

    The blobs are in a real folder beside `snapshots`, and the link leads to a file there, not on from it.
    """
    if not path.is_symlink():
        return path.is_file() or path.is_dir()
    snapshots = folder.absolute().parent
    blobs = snapshots.parent / "blobs"
    if snapshots.name != "snapshots" or snapshots.is_symlink() or blobs.is_symlink():
        return False
    target = path.parent / os.readlink(path)
    return target.parent.resolve() == blobs.resolve() and target.is_file() and not target.is_symlink()
