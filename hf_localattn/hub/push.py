"""Uploading checkpoint folders to the Hub: weights, code and tokenizer, then a card that pins their commit."""

from __future__ import annotations

import dataclasses
import logging
import os
import shlex
import shutil
import tempfile
from concurrent.futures import Future
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from hf_localattn.errors import hub_upload_errors
from hf_localattn.families import FAMILIES
from hf_localattn.files import STAGING, claimed
from hf_localattn.hub.model_card import CARD, write_card
from hf_localattn.hub.record import RECORD
from hf_localattn.hub.verify import EXTRA, LOADED, MISSING, WEIGHTS, is_regular, verify_checkpoint
from hf_localattn.names import read_config

logger = logging.getLogger(__name__)

SHARED = (*LOADED, "*.py", RECORD, "*_results.json", "LICENSE*")
"""Patterns of the uploaded files. Other files of the folder, such as logs and pickles, are not uploaded."""

STALE = (*WEIGHTS, "training_args.bin", "trainer_state.json")
"""Patterns of files that are deleted on the Hub unless uploaded again: old weights, which could be loaded, and
Trainer's files about a machine."""

CARD_MESSAGE = "Model card"  # of the commits that have only a card, which no card pins


def push_checkpoint(
    checkpoint: str | os.PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    branch: str | None = None,
    message: str | None = None,
    token: str | bool | None = None,
    **metadata: Any,
) -> CommitInfo:
    """Upload a checkpoint folder to the Hub, with a card that pins the uploaded commit.

    After a failure, repeat the call to upload the missing files. After a success, the same call changes nothing. What
    you added to the card in the folder is kept, and so is a card that you wrote yourself or edited on the Hub.

    Args:
        checkpoint: Folder with a configuration and safetensors weights.
        repo_id: Name on the Hub, "owner/name". The repository is created if it does not exist.
        private (*optional*): If True, create a private repository. Defaults to the owner's setting on the Hub.
        branch (*optional*, defaults to "main"): Branch. It is created if it does not exist.
        message (*optional*): Message of the commit.
        token (*optional*): Access token for the Hub. Defaults to the token of `hf auth login`.
        **metadata: Metadata of the card, such as `license` and `language`.

    Returns:
        The commit with weights, code and tokenizer. Pass its `oid` as `revision` to load it.

    Raises:
        FileNotFoundError: The folder is not a checkpoint.
        ValueError: The weights are not safetensors, a file is a link or names other code, the card cannot be updated,
            `private` is True for a public repository, or another process uses the folder.
        OSError: The Hub cannot be reached, or refuses the upload.
    """
    folder = Path(checkpoint)
    check_checkpoint(folder)
    api = HfApi(token=token)
    names = shared_files(folder)
    command = ["hf-localattn", "push", str(folder), repo_id]
    if private:
        command.append("--private")
    remedy = (
        f"The folder's files are unchanged. Remove the cause, then upload the missing ones: `{shlex.join(command)}`."
    )
    lock = claimed(folder) if os.access(folder, os.W_OK) else nullcontext()  # not while a training saves to it
    with lock, hub_upload_errors(f"upload {str(folder)!r} to {repo_id!r}", remedy):
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and not api.model_info(repo_id).private:
            raise ValueError(f"{repo_id} exists and is public: make it private first, or leave out --private.")
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        before = api.model_info(repo_id, revision=branch)
        published = [file.rfilename for file in before.siblings or ()]
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message or f"Upload {read_config(folder)['model_type']} model",
            revision=branch,
            allow_patterns=names,
            delete_patterns=[name for name in published if _matches(name, STALE) and name not in names],
        )
        commits = api.list_repo_commits(repo_id, revision=branch)
        of_cards = [past.commit_id for past in commits if past.title == CARD_MESSAGE]
        of_files = [past.commit_id for past in commits if past.title != CARD_MESSAGE]
        if commit.oid == before.sha and of_files:  # no file has changed
            commit = dataclasses.replace(commit, oid=of_files[0])
        card = published_text(api, repo_id, CARD, revision=before.sha)
        if card is not None:
            our_card = published_text(api, repo_id, CARD, revision=of_cards[0]) if of_cards else None
            if card != our_card:
                logger.warning(
                    "The card of %s was edited and is kept: to renew it, delete it there and push.", repo_id
                )
                return commit
        api.upload_file(
            path_or_fileobj=write_card(folder, repo_id=repo_id, revision=commit.oid, overwrite=None, **metadata),
            path_in_repo=CARD,
            repo_id=repo_id,
            revision=branch,
            commit_message=CARD_MESSAGE,
        )
    return commit


def upload_in_background(
    folder: Path, *, token: str | None = None, path_in_repo: str | None = None, **settings: Any
) -> Future[CommitInfo]:
    """Start uploading what `push_checkpoint` uploads, as it is now, or all files to a folder of the repository."""
    names = shared_files(folder)
    if path_in_repo is not None:
        names = [path.name for path in folder.iterdir() if path.is_file() and path.name != "training_args.bin"]
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder.parent))
    for name in names:
        try:
            os.link(folder / name, staging / name)
        except OSError:  # links are not supported here
            shutil.copy2(folder / name, staging / name)
    upload: Future[CommitInfo] = HfApi(token=token).upload_folder(
        folder_path=staging, path_in_repo=path_in_repo, run_as_future=True, **settings
    )
    upload.add_done_callback(lambda _: shutil.rmtree(staging, ignore_errors=True))
    return upload


def shared_files(folder: Path) -> list[str]:
    """Return the names of the files of a checkpoint folder to upload."""
    return sorted(path.name for path in folder.iterdir() if path.is_file() and _matches(path.name, SHARED))


def check_checkpoint(folder: Path) -> None:
    """Refuse a folder that must not be uploaded. Warn if code files differ from the package's.

    Uploading follows links, so a link could publish any file of this machine.
    """
    names = sorted(path.name for path in folder.iterdir() if _matches(path.name, (CARD, *SHARED)))
    for name in names:
        if not is_regular(folder / name, folder):
            raise ValueError(f"{folder / name} is a link: replace it with the file.")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no .safetensors file.")
    if read_config(folder)["model_type"] not in FAMILIES:
        return
    code = verify_checkpoint(folder, subfolders=False)
    others = [file for file in code.others if file.name in names or file.verdict == MISSING]
    for file in others:
        if file.verdict == EXTRA and file.note:
            raise ValueError(f"{folder / file.name}: {file.note}, which is no code of this folder: remove it.")
    if others:
        differing = ", ".join(f"{file.name} ({file.verdict})" for file in others)
        logger.warning("The code of %s differs from hf_localattn %s: %s.", folder, code.compared_with, differing)


def published_text(api: HfApi, repo_id: str, name: str, **where: Any) -> str | None:
    """Return the text of a file on the Hub; None if there is none. `where` is a revision or a type of repository."""
    try:
        path = hf_hub_download(repo_id, name, token=api.token, **where)
    except EntryNotFoundError:
        return None
    return Path(path).read_text(encoding="utf-8")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a file name matches a pattern. Files in subfolders never match, although `*` matches "/"."""
    return "/" not in name and any(fnmatch(name, pattern) for pattern in patterns)
