"""Writing folders so that nothing half-written is ever found in them."""

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
"""The file that tells a folder whose command was killed from one whose command has come to its end."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNWRITABLE = (*FULL, errno.EROFS, errno.EIO)


class CannotWrite(OSError):
    """A file could not be written. The message names it, the cause, and what to do."""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name path, cause and remedy if there is no room for a file, around calls that write to `path`.

    Raises:
        CannotWrite: a disk, a quota or a limit is full, or the disk fails. Other errors go on as they are.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, CannotWrite) or (cause := _cause(error)) is None:
            raise
        free = shutil.disk_usage(_existing(Path(path))).free / 1e9
        remedy = f"Make room ({free:.1f} GB are free there)"
        if cause == os.strerror(errno.EFBIG):
            remedy = "Raise the limit on the size of a file (`ulimit -f`, or the file system's own)"
        raise CannotWrite(
            f"Cannot write {path}: {cause}. {remedy}, and give the same command again. What was saved before is whole."
        ) from error


def _cause(error: BaseException | None) -> str | None:
    """Return why something could not be written, None for another error. Libraries tell it in their own ways."""
    while error is not None:
        text = str(error)
        number = error.errno if isinstance(error, OSError) else None
        if match := re.search(r"\(os error (\d+)\)", text):  # safetensors
            number = int(match[1])
        if number in UNWRITABLE:
            return os.strerror(number)
        if isinstance(error, RuntimeError) and re.search("inline_container|PytorchStreamWriter", text):
            return "torch could not write it to its end, as when a disk or a quota is full"
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")):
            return text
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def atomic_directory(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Gives a temporary folder; when the block has ended well, moves its files into `folder` one by one.

    No file in `folder` is ever half-written, and a failing block changes nothing there, nor leaves a new folder
    behind. Weight files of an earlier save that the new one does not have are removed.

    Raises:
        CannotWrite: there is no room.
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
    """Writes a file, in a folder that is made where absent, so that it is there whole or not at all.

    Raises:
        CannotWrite: there is no room. What was there before is as it was.
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
    """Wait until files, and which files a folder has, are on the disk: a power cut leaves them as they are now."""
    for path in paths:
        if path.is_dir() and os.name != "posix":  # folders cannot be opened there
            continue
        descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def discard(folder: Path) -> None:
    """Remove a folder so that it is there whole or not at all, also for whoever is killed meanwhile."""
    doomed = folder.with_name(f"{STAGING}{folder.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        os.replace(folder, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what a process was writing or removing in a folder when it was killed; no other may be at it."""
    for left in folder.glob(f"{STAGING}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())
