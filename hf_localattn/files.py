"""Writing folders so that nothing half-written is ever found in them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A leading underscore keeps a folder out of Trainer's uploads to the Hub.
STAGING = "_saving-"


@contextmanager
def replaced_whole(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Gives a temporary folder; when the block has ended well, moves its files into `folder` one by one.

    No file in `folder` is ever half-written, and a failing block changes nothing there, nor leaves a new folder
    behind. Weight files of an earlier save that the new one does not have are removed.
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


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a file, in a folder that is made where absent, so that it is there whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"_{path.name}.{os.getpid()}")
    if isinstance(content, bytes):
        temporary.write_bytes(content)
    else:
        temporary.write_text(content, encoding="utf-8")
    os.replace(temporary, path)
