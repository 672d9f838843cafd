"""Locks on folders: two processes never write to a folder at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".hf-localattn.lock"
"""Name of the lock file in a folder. A killed process leaves the file, but not the lock."""


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
