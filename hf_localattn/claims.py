"""Claiming a folder, so that two processes never write to it at the same time."""

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
"""The file by which a folder is claimed. A process that is killed leaves the file, but not the claim."""

UNKNOWN = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers of file systems without locks."""


class InUse(ValueError):
    """A folder is claimed by another process."""


@dataclass
class _Claim:
    descriptor: int
    holders: int = 1


_claims: dict[Path, _Claim] = {}
_guard = threading.Lock()


@contextmanager
def claimed(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep a folder for this process, which may claim it several times; it is made where absent.

    The operating system holds the claim by `flock`, and frees it when the process ends, also by a kill. On NFS (Linux)
    it holds between machines too. On file systems without locks there is a warning.

    Raises:
        InUse: another process has claimed the folder.
        ValueError: it is a file.
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
                with suppress(OSError):  # one that is not empty stays
                    for one in made:
                        one.rmdir()


def _lock(folder: Path) -> int:
    """Return the descriptor of the locked file."""
    path = folder / LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():  # the file that it leads to would be written to
                raise ValueError(f"{path} is a link: remove it.")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileNotFoundError:  # another process has just removed the folder that it had made
            continue
        try:
            _take(descriptor)
            if _is_there(descriptor, path):
                with suppress(OSError):  # on a full disk nobody is told who it is
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
                return descriptor
            # Its last holder has removed it meanwhile: it keeps nobody else out.
            os.close(descriptor)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace").split() if os.name == "posix" else []
            os.close(descriptor)
            by = f" (process {holder[0]} on {holder[1]})" if len(holder) == 2 else ""
            raise InUse(
                f"{folder} is in use by another process{by}. Wait until that has ended, or choose another folder."
            ) from None
        except BaseException:
            os.close(descriptor)
            raise


def _take(descriptor: int) -> None:
    """Lock a file, or raise `BlockingIOError` if another process has."""
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
        logger.warning("This file system has no locks (%s): see to it that no other process writes there.", error)


def _is_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _unlock(folder: Path, descriptor: int) -> None:
    # Removed while it is locked: whoever has opened it before sees that it is gone, and tries again.
    with suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:
            (folder / LOCK).unlink()
    os.close(descriptor)


def _forget() -> None:
    """Leave the claims to the parent: a worker that outlives it must not hold them."""
    for claim in _claims.values():
        os.close(claim.descriptor)
    _claims.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
