"""Locks on folders: two processes never write to a folder at the same time."""

import errno
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

logger = logging.getLogger(__name__)

LOCK = ".hf-localattn.lock"
"""Name of the lock file in a folder. A killed process leaves the file, but not the lock."""

UNKNOWN = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers of file systems that do not support locks."""


class InUse(ValueError):
    """A folder is locked by another process."""


@dataclass
class _Claim:
    descriptor: int
    holders: int = 1


_claims: dict[Path, _Claim] = {}
_guard = threading.Lock()


@contextmanager
def claimed(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a folder for this process. The process may lock the same folder again in nested blocks.

    The operating system releases the lock, an `flock`, when the process ends or is killed. On NFS (Linux), the lock
    also excludes processes of other machines. On file systems without locks, a warning is logged.

    Args:
        folder: the folder, created if it does not exist. A new folder that is empty at the end is removed.

    Raises:
        InUse: another process has locked the folder.
        ValueError: `folder` is a file.
    """
    path = Path(folder).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{folder} is a file; choose a folder.")
    made = [one for one in (path, *path.parents) if not one.exists()]
    with _guard:
        if path in _claims:
            _claims[path].holders += 1
        else:
            _claims[path] = _Claim(_lock(path))
    try:
        yield
    finally:
        with _guard:
            _claims[path].holders -= 1
            if not _claims[path].holders:
                _unlock(path, _claims.pop(path).descriptor)
                with suppress(OSError):  # raised if a folder is not empty
                    for one in made:
                        one.rmdir()


def _lock(folder: Path) -> int:
    """Lock a folder and return the descriptor of its lock file."""
    path = folder / LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():  # its target would be overwritten
                raise ValueError(f"{path} is a link: remove it.")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileNotFoundError:  # another process has just removed the folder
            continue
        try:
            _take(descriptor)
            if _is_there(descriptor, path):
                with suppress(OSError):  # on a full disk, the name of the process is missing
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
                return descriptor
            # The previous holder has removed the file in the meantime, so this lock would exclude nobody.
            os.close(descriptor)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace").split() if os.name == "posix" else []
            os.close(descriptor)
            by = f" (process {holder[0]} on {holder[1]})" if len(holder) == 2 else ""
            raise InUse(
                f"{folder} is in use by another process{by}. Wait until it has ended, or choose another folder."
            ) from None
        except BaseException:
            os.close(descriptor)
            raise


def _take(descriptor: int) -> None:
    """Lock a file; raise `BlockingIOError` if another process has locked it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK):
            raise BlockingIOError(error.errno, error.strerror) from error
        if error.errno not in UNKNOWN:
            raise
        logger.warning(
            "This file system has no locks (%s): make sure that no other process writes to this folder.", error
        )


def _is_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _unlock(folder: Path, descriptor: int) -> None:
    # Remove the file while it is locked. A process that has already opened the file notices this and tries again.
    with suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:
            (folder / LOCK).unlink()
    os.close(descriptor)


def _forget() -> None:
    """Drop the locks in a forked child. A child may outlive its parent and must not hold the locks."""
    for claim in _claims.values():
        os.close(claim.descriptor)
    _claims.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
