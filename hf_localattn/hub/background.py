"""Uploading a checkpoint during training."""

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
    """Start uploading the current files of a checkpoint folder. Later changes to the folder are not uploaded.

    The files are linked into a temporary folder next to the checkpoint, or copied if links are not supported.

    Args:
        checkpoint: Checkpoint folder.
        repo_id: Name of the repository on the Hub, "owner/name".
        message: Message of the commit.
        path_in_repo (*optional*): Folder in the repository. If given, all files are uploaded to this folder,
            including the training state. By default, only weights, code, tokenizer and configuration are uploaded,
            to the root of the repository.
        token (*optional*): Access token for the Hub. Defaults to the token of `hf auth login`.
        branch (*optional*, defaults to "main"): Branch of the repository.

    Returns:
        A future whose result is the commit.
    """
    folder = Path(checkpoint)
    names = (
        shared_files(folder) if path_in_repo is None else [path.name for path in folder.iterdir() if path.is_file()]
    )
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder.parent))
    for name in names:
        if name != "training_args.bin":  # a pickle with settings of this machine
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
    except OSError:  # links are not supported here
        shutil.copy2(source, target)
