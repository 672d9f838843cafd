"""Verification of downloads by their digests. The Hub's client compares only their sizes."""

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
    """Verify the model files that are downloaded in the block.

    Files in the cache are named by their ETag, a digest of the content. Files with another digest are removed, because
    later calls would use them.

    Args:
        repo_id: Hub id of the model. A local folder is not verified.
        cache_dir: cache folder. Defaults to the user's.

    Raises:
        OSError: the content of a file does not match its digest.
    """
    if Path(repo_id).exists():
        yield
        return
    cache = Path(cache_dir or constants.HF_HUB_CACHE).expanduser()
    repository = cache / repo_folder_name(repo_id=repo_id, repo_type="model")
    known = set(_blobs(repository))
    try:
        yield
    except Exception as error:  # a corrupt file may be the cause
        if wrong := _remove_corrupt(repository, known):
            raise OSError(_error_message(wrong)) from error
        raise
    if wrong := _remove_corrupt(repository, known):
        raise OSError(_error_message(wrong))


def _blobs(repository: Path) -> list[Path]:
    """Return the files of the cache, each named by its ETag."""
    folder = repository / "blobs"
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def _remove_corrupt(repository: Path, known: set[Path]) -> list[str]:
    """Remove new files that do not match their digest, and return their names in the repository."""
    wrong = [path for path in _blobs(repository) if path not in known and not _matches_digest(path)]
    names = []
    for link in (repository / "snapshots").rglob("*") if wrong else ():
        if link.is_symlink() and Path(os.readlink(link)).name in {path.name for path in wrong}:
            names.append(link.name)
            link.unlink()
    for path in wrong:
        path.unlink()
    return sorted(set(names))


def _matches_digest(path: Path) -> bool:
    """Return True if the content of a file matches the digest in its name, or if its name is not a digest."""
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", path.name):
        return True
    if len(path.name) == 64:  # large files
        return path.name == _digest(path, hashlib.sha256())
    header = b"blob %d\0" % path.stat().st_size  # as in Git; some mirrors compute digests without the header
    return path.name in (_digest(path, hashlib.sha1(header)), _digest(path, hashlib.sha1()))


def _digest(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _error_message(names: list[str]) -> str:
    return (
        f"the download of {', '.join(names) or 'a file'} does not have the digest that the Hub announced, probably"
        " because the connection or a proxy failed. It has been removed from the cache: try again."
    )
