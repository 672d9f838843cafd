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

from hf_localattn.claims import claimed
from hf_localattn.errors import hub_upload_errors
from hf_localattn.files import STAGING
from hf_localattn.hub.model_card import CARD, write_card
from hf_localattn.hub.verify import EXTRA, MISSING, is_regular, verify_checkpoint
from hf_localattn.names import read_config
from hf_localattn.registry import FAMILIES

logger = logging.getLogger(__name__)

WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
SHARED = (
    *WEIGHTS,
    *("config.json", "generation_config.json", "*.py", "training_record.json", "*_results.json", "LICENSE*"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja"),
    *("vocab.txt", "vocab.json", "merges.txt", "*.model", "preprocessor_config.json", "processor_config.json"),
)
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
    api, names = HfApi(token=token), shared_files(folder)
    command = shlex.join(["hf-localattn", "push", str(folder), repo_id, *(["--private"] if private else [])])
    remedy = f"The folder's files are unchanged. Remove the cause, then upload the missing ones: `{command}`."
    lock = claimed(folder) if os.access(folder, os.W_OK) else nullcontext()  # not while a training saves to it
    with lock, hub_upload_errors(f"upload {str(folder)!r} to {repo_id!r}", remedy):
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and not api.model_info(repo_id).private:
            raise ValueError(f"{repo_id} exists and is public: make it private first, or leave out --private.")
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        before = api.model_info(repo_id, revision=branch)
        stale = {one.rfilename for one in before.siblings or () if _matches(one.rfilename, STALE)} - {*names}
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message or f"Upload {read_config(folder)['model_type']} model",
            revision=branch,
            allow_patterns=names,
            delete_patterns=list(stale),
        )
        commits = api.list_repo_commits(repo_id, revision=branch)
        if commit.oid == before.sha:  # no file has changed
            pinned = next((one.commit_id for one in commits if one.title != CARD_MESSAGE), commit.oid)
            commit = dataclasses.replace(commit, oid=pinned)
        own_card, card = folder / CARD, published_text(api, repo_id, CARD, revision=before.sha)
        last = next((one.commit_id for one in commits if one.title == CARD_MESSAGE), None)
        if card is not None and (last is None or card != published_text(api, repo_id, CARD, revision=last)):
            logger.warning("The card of %s was edited and is kept: to renew it, delete it there and push.", repo_id)
            return commit
        write_card(folder, repo_id=repo_id, revision=commit.oid, overwrite=None, **metadata)
        upload: dict[str, Any] = {"path_in_repo": CARD, "commit_message": CARD_MESSAGE, "revision": branch}
        api.upload_file(repo_id=repo_id, path_or_fileobj=own_card, **upload)
    return commit


def upload_in_background(
    folder: Path, *, token: str | None = None, path_in_repo: str | None = None, **settings: Any
) -> Future[CommitInfo]:
    """Start uploading what `push_checkpoint` uploads, as it is now, or all files to a folder of the repository."""
    every = [path.name for path in folder.iterdir() if path.is_file() and path.name != "training_args.bin"]
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder.parent))
    for name in shared_files(folder) if path_in_repo is None else every:
        try:
            os.link(folder / name, staging / name)
        except OSError:  # links are not supported here
            shutil.copy2(folder / name, staging / name)
    settings |= {"folder_path": staging, "path_in_repo": path_in_repo}
    upload: Future[CommitInfo] = HfApi(token=token).upload_folder(run_as_future=True, **settings)
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
    if read_config(folder)["model_type"] in FAMILIES:
        code = verify_checkpoint(folder, subfolders=False)
        others = [file for file in code.others if file.name in names or file.verdict == MISSING]
        for file in others:
            if file.verdict == EXTRA and file.note:
                raise ValueError(f"{folder / file.name}: {file.note}, which is no code of this folder: remove it.")
        if others:
            differing = ", ".join(f"{file.name} ({file.verdict})" for file in others)
            logger.warning("The code of %s differs from hf_localattn %s: %s.", folder, code.compared_with, differing)
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no .safetensors file.")


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
