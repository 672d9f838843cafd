"""Uploading checkpoint folders to the Hub: weights, code and tokenizer, then a card that pins their commit."""

from __future__ import annotations

import dataclasses
import logging
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from hf_localattn.errors import CheckpointError, hub_upload_errors
from hf_localattn.families import FAMILIES
from hf_localattn.files import A_LINK, STAGING, claimed, is_regular
from hf_localattn.hub.model_card import CARD, write_card
from hf_localattn.hub.record import ARGUMENTS, read_record
from hf_localattn.hub.verify import EXTRA, MISSING, CodeFile, verify_checkpoint
from hf_localattn.installed.policy import REFUSED, TEMPLATES, check_folder, harmless, is_read, matches
from hf_localattn.installed.policy_table import READ
from hf_localattn.names import STATE, read_config

logger = logging.getLogger(__name__)

NOT_SHARED = ("export.json", "model.onnx", "model.onnx.data", STATE)
"""Files of an exported folder, which is no checkpoint, and Trainer's about a machine."""

SHARED = (*(name for name in READ if name not in NOT_SHARED), "*.py", "*_results.json", "LICENSE*")
"""Patterns of the uploaded files. Other files of the folder, such as logs and pickles, are not uploaded."""

STALE = ("*.safetensors", "*.safetensors.index.json", ARGUMENTS, STATE)
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
        ValueError: The weights are not safetensors, the card cannot be updated, `private` is True for a public
            repository, or another process uses the folder.
        CheckpointError: Loading would refuse the checkpoint, a file is a link, or an entry names other code.
        OSError: The Hub cannot be reached, or refuses the upload.
    """
    folder = Path(checkpoint)
    names = check_checkpoint(folder)
    read_record(folder, None)  # of which the card tells
    api = HfApi(token=token)
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
        with _stage(folder, names) as staging:
            check_checkpoint(Path(staging), folder)  # what is uploaded is what is judged
            commit = api.upload_folder(
                repo_id=repo_id,
                folder_path=staging,
                commit_message=message or f"Upload {read_config(folder)['model_type']} model",
                revision=branch,
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
    """Start uploading what `push_checkpoint` uploads, as it is now, or all files to a folder of the repository.

    If the folder must not be uploaded, the result is the error.
    """
    if path_in_repo is not None:
        names = [path.name for path in folder.iterdir() if path.is_file() and not path.is_symlink()]
        names = [name for name in names if name != ARGUMENTS]
    else:
        try:
            names = check_checkpoint(folder)
        except (CheckpointError, ValueError) as error:
            refused: Future[CommitInfo] = Future()
            refused.set_exception(error)
            return refused
    staging = _stage(folder, names)
    upload: Future[CommitInfo] = HfApi(token=token).upload_folder(
        folder_path=staging.name, path_in_repo=path_in_repo, run_as_future=True, **settings
    )
    upload.add_done_callback(lambda _: staging.cleanup())
    return upload


def _stage(folder: Path, names: Iterable[str]) -> tempfile.TemporaryDirectory[str]:
    """Return a new folder with files of a checkpoint as they are now, by the same names."""
    beside = folder.parent if os.access(folder.parent, os.W_OK) else None
    staging = tempfile.TemporaryDirectory(prefix=STAGING, dir=beside, ignore_cleanup_errors=True)
    for name in names:
        file = (folder / name).resolve()
        try:
            os.link(file, Path(staging.name, name))
        except OSError:  # links are not supported here
            shutil.copy2(file, Path(staging.name, name))
    return staging


def check_checkpoint(folder: Path, where: Path | None = None) -> list[str]:
    """Refuse a folder that must not be uploaded. Warn if code files differ from the package's, or are extra.

    Args:
        folder: The folder.
        where (*optional*, defaults to `folder`): Folder for messages.

    Returns:
        The names of the files to upload, without extra code.

    Raises:
        CheckpointError: Loading would refuse a file, or it is a link. Uploading would follow it to any file of this
            machine.
        ValueError: There are no safetensors weights.
    """
    where = where or folder
    names = sorted(path.name for path in folder.iterdir() if _matches(path.name, (CARD, *SHARED)))
    for name in names:
        if not is_regular(folder / name, folder):
            raise CheckpointError(f"{where / harmless(name)}: {A_LINK}")
    others: tuple[CodeFile, ...] = ()
    packages = ""
    if read_config(folder)["model_type"] in FAMILIES:
        verification = verify_checkpoint(folder, subfolders=False)
        others, packages = verification.others, verification.compared_with
    else:
        check_folder(folder)
    for file in others:
        is_log = file.note == A_LINK and file.name != TEMPLATES and not is_read(file.name)  # or another file
        if file.verdict == REFUSED and not is_log:
            raise CheckpointError(f"{where / file.label}: {file.note}")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"{where} has no .safetensors file: save the model to it.")
    code = [file for file in others if _matches(file.name, SHARED) or file.verdict == MISSING]
    extra = {file.name for file in code if file.verdict == EXTRA}
    if code and folder == where:
        differing = ", ".join(f"{file.label} ({file.verdict})" for file in code)
        note = " What is extra is not uploaded." if extra else ""
        logger.warning("The code of %s differs from %s: %s.%s", where, packages, differing, note)
    return [name for name in names if (folder / name).is_file() and _matches(name, SHARED) and name not in extra]


def published_text(api: HfApi, repo_id: str, name: str, **where: Any) -> str | None:
    """Return the text of a file on the Hub; None if there is none. `where` is a revision or a type of repository."""
    try:
        path = hf_hub_download(repo_id, name, token=api.token, **where)
    except EntryNotFoundError:
        return None
    return Path(path).read_text(encoding="utf-8")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a file name matches a pattern. Files in subfolders never match, although `*` matches "/"."""
    return "/" not in name and matches(name, patterns)
