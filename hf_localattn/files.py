"""Atomic writing of files and folders: a killed process leaves no incomplete file."""

import errno
import os
import re
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

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNWRITABLE = (*FULL, errno.EROFS, errno.EIO)


class CannotWrite(OSError):
    """A file could not be written. The message names the file, the cause and a remedy."""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of a full or failing disk, raised in the block, into `CannotWrite`.

    Args:
        path: the file or folder that the block writes to.

    Raises:
        CannotWrite: the disk or a quota is full, a size limit is exceeded, or the disk fails.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, CannotWrite) or (cause := _cause(error)) is None:
            raise
        free = shutil.disk_usage(_existing(Path(path))).free / 1e9
        remedy = f"Make room ({free:.1f} GB are free there)"
        if cause == os.strerror(errno.EFBIG):
            remedy = "Raise the limit on the size of files (`ulimit -f`, or that of the file system)"
        raise CannotWrite(
            f"Cannot write {path}: {cause}. {remedy}, and repeat the command. Files that were saved before are intact."
        ) from error


def _cause(error: BaseException | None) -> str | None:
    """Return the cause of a write failure, as reported by any library; return None for other errors."""
    while error is not None:
        text = str(error)
        number = error.errno if isinstance(error, OSError) else None
        if match := re.search(r"\(os error (\d+)\)", text):  # safetensors
            number = int(match[1])
        if number in UNWRITABLE:
            return os.strerror(number)
        if isinstance(error, RuntimeError) and re.search("inline_container|PytorchStreamWriter", text):
            return "torch could not write the whole file, probably because the disk or a quota is full"
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")):
            return text
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def atomic_directory(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Provide a temporary folder, and move its files to `folder` one by one when the block ends without an error.

    Each file in `folder` is complete at any time. If the block fails, `folder` is unchanged. Old weight files are
    removed if the new save does not replace them.

    Args:
        folder: destination of the files, created if it does not exist.

    Raises:
        CannotWrite: the disk is full or fails.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    try:
        with writing(folder):
            yield str(staging)
            fresh = sorted(path.relative_to(staging) for path in staging.rglob("*") if path.is_file())
            make_durable(*(staging / name for name in fresh))
            for name in fresh:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(staging / name, folder / name)
            for stale in folder.glob("*.safetensors*"):
                if stale.relative_to(folder) not in fresh:
                    stale.unlink()
            make_durable(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def atomic_write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file completely or not at all.

    Args:
        path: the file. Its folder is created if it does not exist.
        content: bytes, or text to encode as UTF-8.

    Raises:
        CannotWrite: the disk is full or fails. An existing file is unchanged.
    """
    path = Path(path)
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{STAGING}{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with writing(path):
            temporary.write_bytes(data)
            make_durable(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def make_durable(*paths: Path) -> None:
    """Flush files and folder entries to the disk, so that they survive a power failure."""
    for path in paths:
        if path.is_dir() and os.name != "posix":  # Windows cannot open folders
            continue
        descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def discard(folder: Path) -> None:
    """Remove a folder atomically: if the process is killed, the folder is complete or gone."""
    doomed = folder.with_name(f"{STAGING}{folder.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        os.replace(folder, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a killed process from a folder. No other process may be using the folder."""
    for left in folder.glob(f"{STAGING}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())
