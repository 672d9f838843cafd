"""Uploading a checkpoint while training goes on."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import Future
from pathlib import Path

from huggingface_hub import CommitInfo, HfApi

from hf_localattn.files import STAGING
from hf_localattn.hub.push import shared_files


def upload_in_background(
    checkpoint: str | os.PathLike[str],
    repo_id: str,
    *,
    message: str,
    path_in_repo: str | None = None,
    token: str | bool | None = None,
    branch: str | None = None,
) -> Future[CommitInfo]:
    """Begin to upload a checkpoint folder as it is now; what becomes of the folder meanwhile does not matter.

    Args:
        checkpoint: a folder beside which there is room for links to its files, or where they cannot be linked for
            copies.
        repo_id, token, branch: where to.
        message: of the commit.
        path_in_repo: a folder there for all that it takes to go on training; by default weights, code, tokenizer and
            configuration are uploaded as the repository's model.
    """
    folder = Path(checkpoint)
    names = (
        shared_files(folder) if path_in_repo is None else [path.name for path in folder.iterdir() if path.is_file()]
    )
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder.parent))
    for name in names:
        if name != "training_args.bin":  # of this machine, and a pickle
            _link(folder / name, staging / name)
    upload: Future[CommitInfo] = HfApi(token=token).upload_folder(
        repo_id=repo_id,
        folder_path=staging,
        path_in_repo=path_in_repo,
        commit_message=message,
        revision=branch,
        run_as_future=True,
    )
    upload.add_done_callback(lambda _: shutil.rmtree(staging, ignore_errors=True))
    return upload


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
