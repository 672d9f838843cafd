"""Uploading checkpoint folders to the Hub: weights, code and tokenizer first, then a card that pins their commit."""

from __future__ import annotations

import dataclasses
import logging
import os
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from hf_localattn.claims import claimed
from hf_localattn.downloads import verified_downloads
from hf_localattn.errors import hub_upload_errors
from hf_localattn.hub.checkpoint import read_config, warn_of_parser_folder
from hf_localattn.hub.model_card import CARD, has_text, is_ours, pinned_commit, renew_card
from hf_localattn.hub.verify import EQUAL, verify_checkpoint
from hf_localattn.models.weight_checks import CONVERSION, read_header
from hf_localattn.parsing import parse_json, read_utf8
from hf_localattn.registry import FAMILIES

logger = logging.getLogger(__name__)

WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
SHARED = (
    *WEIGHTS,
    *("config.json", "generation_config.json", "*.py", "training_record.json", "*_results.json", "LICENSE*"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja"),
    *("vocab.txt", "vocab.json", "merges.txt", "*.model", "preprocessor_config.json", "processor_config.json"),
)
"""Patterns of the files of a checkpoint. Everything else in its folder, from logs to pickles, stays on the machine."""

STALE = (*WEIGHTS, "training_args.bin", "trainer_state.json")
"""Patterns of the files that are removed from the Hub if they are not uploaded anew: other weights, which could be
loaded in place of these, and files of the machine that Trainer uploads."""


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
    """Upload a checkpoint folder, and a card that says how to load exactly what was uploaded.

    Repeating it after a failure completes what is missing; repeating it after a success changes nothing. What people
    have added to the card, in the folder or on the Hub, stays; so does a card on the Hub that was not written here,
    and one in the folder is uploaded as it is.

    Args:
        checkpoint: a folder with configuration and safetensors weights.
        repo_id: its name on the Hub, "owner/name"; it is made where there is none.
        private: whether a new repository is private; by default as its owner's are.
        branch: to upload to, by default "main"; it is made where there is none.
        message: of the commit.
        token: by default that of `hf auth login`.
        **metadata: of the card, such as `license` and `language`.

    Returns:
        The commit of weights, code and tokenizer, to be pinned by whoever loads it.

    Raises:
        FileNotFoundError: the folder holds no checkpoint.
        ValueError: its weights are not safetensors, its card cannot be renewed, it should be private and the
            repository that is there is not, or another process is at the folder.
        OSError: the Hub is out of reach, or refuses; weights, code and tokenizer in the folder are as they were.
    """
    folder = Path(checkpoint)
    check_weights(folder)
    with claimed(folder) if os.access(folder, os.W_OK) else nullcontext():  # or it would be half of a training's save
        return _push(folder, repo_id, private, branch, message, token, metadata)


def _push(
    folder: Path,
    repo_id: str,
    private: bool | None,
    branch: str | None,
    message: str | None,
    token: str | bool | None,
    metadata: Mapping[str, Any],
) -> CommitInfo:
    warn_of_parser_folder(_parser_of(folder))
    _warn_of_code(folder)
    api = HfApi(token=token)
    again = {"--private": private or None, "--branch": branch}
    again |= {f"--{name}": metadata.get(name) for name in ("license", "language")}
    with hub_upload_errors(f"upload {str(folder)!r} to {repo_id!r}", _remedy(folder, repo_id, again)):
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and not api.model_info(repo_id).private:
            raise ValueError(
                f"{repo_id} is there already, and public: make it private on its settings page first, or leave out"
                " --private."
            )
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        before = api.model_info(repo_id, revision=branch)
        names = shared_files(folder)
        there = {sibling.rfilename for sibling in before.siblings or ()}
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message or f"Upload {read_config(folder)['model_type']} model",
            revision=branch,
            allow_patterns=names,
            delete_patterns=[name for name in there - set(names) if _matches(name, STALE)],
        )
        head = str(before.sha)
        card = _card_of(api, repo_id, head)
        if commit.oid == head:  # nothing was new: the card may say since when
            commit = dataclasses.replace(commit, oid=_last_change(api, repo_id, head, card))
        if card is not None and has_text(card) and not is_ours(card) and not _has_own_card(folder):
            logger.warning("The card of %s is not from hf-localattn and stays as it is.", repo_id)
            return commit
        renew_card(folder, repo_id=repo_id, revision=commit.oid, published=card, **metadata)
        api.upload_file(
            path_or_fileobj=folder / CARD,
            path_in_repo=CARD,
            repo_id=repo_id,
            revision=branch,
            commit_message="Model card",
        )
    return commit


def _remedy(folder: Path, repo_id: str, options: Mapping[str, Any]) -> str:
    """Return the advice that completes an upload that has failed."""
    words = [str(folder), repo_id]
    for name, value in options.items():
        if value is not None:
            words += [name] if value is True else [name, str(value)]
    return (
        "Weights, code and tokenizer in the folder are as they were; once the cause is gone,"
        f" `hf-localattn push {shlex.join(words)}` uploads what is missing."
    )


def shared_files(folder: Path) -> list[str]:
    """Return the names of the files of a checkpoint folder that are uploaded."""
    return sorted(path.name for path in folder.iterdir() if path.is_file() and _matches(path.name, SHARED))


def check_weights(folder: Path) -> None:
    """Raise `ValueError` for weights that are missing, not whole or pickled, and for links out of the folder.

    Such a link can name any file of this machine, whose content would be uploaded.
    """
    for path in folder.iterdir():
        is_read = path.name == CARD or _matches(path.name, SHARED)
        if is_read and path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(
                f"{path} is a link to {path.resolve()}, which would be uploaded: put the file in its place."
            )
    read_config(folder)
    if weights := sorted(folder.glob("*.safetensors")):
        for path in weights:
            read_header(path)
        return
    if pickled := sorted(path.name for path in folder.glob("*.bin")):
        raise ValueError(f"{folder} has its weights in {pickled[0]}. {CONVERSION}")
    raise ValueError(f"{folder} has no weights: there is no .safetensors file.")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True for a file that matches a pattern; files of subfolders do not, though `*` would reach them."""
    return "/" not in name and any(fnmatch(name, pattern) for pattern in patterns)


def _has_own_card(folder: Path) -> bool:
    path = folder / CARD
    return path.is_file() and not is_ours(path.read_text(encoding="utf-8"))


def _card_of(api: HfApi, repo_id: str, revision: str) -> str | None:
    """The card on the Hub, if there is one."""
    try:
        with verified_downloads(repo_id):
            path = hf_hub_download(repo_id, CARD, revision=revision, token=api.token)
    except EntryNotFoundError:
        return None
    return Path(path).read_text(encoding="utf-8")


def _last_change(api: HfApi, repo_id: str, head: str, card: str | None) -> str:
    """The commit that a card on the Hub tells to load, if its files are those of the last one but for the card."""
    pinned = pinned_commit(card, repo_id) if card is not None else None
    if pinned is None:
        return head

    def files(revision: str) -> dict[str, str]:
        tree = api.list_repo_tree(repo_id, revision=revision, recursive=True)
        return {entry.path: entry.blob_id for entry in tree if hasattr(entry, "blob_id") and entry.path != CARD}

    try:
        return pinned if files(pinned) == files(head) else head
    except EntryNotFoundError:  # a commit that is no more
        return head


def _warn_of_code(folder: Path) -> None:
    """Warn if the code that others will run is not the package's."""
    if read_config(folder)["model_type"] not in FAMILIES:
        return
    code = verify_checkpoint(folder)
    if not code.is_equal:
        others = ", ".join(f"{file.name} ({file.verdict})" for file in code.files if file.verdict != EQUAL)
        logger.warning(
            "The code of %s is not that of hf_localattn %s: %s. Whoever loads it with trust_remote_code=True runs it."
            " `hf-localattn verify %s` shows how; loading and saving the model writes the package's files.",
            *(folder, code.compared_with, others, folder),
        )


def _parser_of(folder: Path) -> str | None:
    """Return the parser that the tokenizer of a checkpoint names, if it names one."""
    path = folder / "tokenizer_config.json"
    settings = parse_json(read_utf8(path), str(path)) if path.is_file() else {}
    if not isinstance(settings, dict):
        raise ValueError(f"{path} is no configuration of a tokenizer: it is not an object of names and values.")
    parser = settings.get("parser")
    return parser if isinstance(parser, str) else None
