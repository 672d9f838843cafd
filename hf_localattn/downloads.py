"""Downloads that are what the Hub announced: its client compares their sizes, and here their digests are compared."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name


@contextmanager
def verified_downloads(repo_id: str, cache_dir: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Compare what is downloaded of a model with the digests under which it is cached, around calls that download.

    The cache keeps a file under its ETag, which is a digest of its content. Another content is removed from there, or
    every later call would take it for what it should be.

    Args:
        repo_id: on the Hub; a folder is not downloaded.
        cache_dir: by default the user's.

    Raises:
        OSError: a file was something else.
    """
    if Path(repo_id).exists():
        yield
        return
    cache = Path(cache_dir or constants.HF_HUB_CACHE).expanduser()
    repository = cache / repo_folder_name(repo_id=repo_id, repo_type="model")
    known = set(_blobs(repository))
    try:
        yield
    except Exception as error:  # which may well be about such a file
        if wrong := _remove_wrong(repository, known):
            raise OSError(_text(wrong)) from error
        raise
    if wrong := _remove_wrong(repository, known):
        raise OSError(_text(wrong))


def _blobs(repository: Path) -> list[Path]:
    """The files of the cache, each named after its ETag."""
    folder = repository / "blobs"
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def _remove_wrong(repository: Path, known: set[Path]) -> list[str]:
    """Remove new files that are not what their names say, and return what they are called in the repository."""
    wrong = [path for path in _blobs(repository) if path not in known and not _is_right(path)]
    names = []
    for link in (repository / "snapshots").rglob("*") if wrong else ():
        if link.is_symlink() and Path(os.readlink(link)).name in {path.name for path in wrong}:
            names.append(link.name)
            link.unlink()
    for path in wrong:
        path.unlink()
    return sorted(set(names))


def _is_right(path: Path) -> bool:
    """Return True if a file has the digest that it is named after, or a name that is no digest."""
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", path.name):
        return True
    if len(path.name) == 64:  # of a large file
        return path.name == _digest(path, hashlib.sha256())
    header = b"blob %d\0" % path.stat().st_size  # Git's; some mirrors do without
    return path.name in (_digest(path, hashlib.sha1(header)), _digest(path, hashlib.sha1()))


def _digest(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _text(names: list[str]) -> str:
    return (
        f"what was downloaded as {', '.join(names) or 'a file'} is not what the Hub announced, as when a connection or"
        " a proxy fails. It is removed from the cache: try again."
    )
