"""Uploading checkpoint folders to the Hub: weights, code and tokenizer, then a card that pins their commit."""

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

from huggingface_hub import CommitInfo, HfApi, ModelCard, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError

from hf_localattn.claims import claimed
from hf_localattn.errors import hub_upload_errors
from hf_localattn.hub.checkpoint import read_config, warn_of_parser_folder
from hf_localattn.hub.eval_results import EVAL_RESULTS
from hf_localattn.hub.model_card import CARD, base_model_of, has_text, is_ours, pinned_commit, renew_card
from hf_localattn.hub.record import TrainingRecord
from hf_localattn.hub.verify import MISSING, is_regular, verify_checkpoint
from hf_localattn.installed.files import CONVERSION, check_weights
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
"""Patterns of the uploaded files. Other files of the folder, such as logs and pickles, are not uploaded."""

STALE = (*WEIGHTS, "training_args.bin", "trainer_state.json")
"""Patterns of files that are deleted on the Hub unless uploaded again: old weights and local files of Trainer.

Old weights could be loaded instead of the new ones."""


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

    Scores on a data set of the Hub are uploaded with the card, as `.eval_results/hf_localattn.yaml`.

    After a failure, repeat the call to upload the missing files. After a success, the same call changes nothing. Text
    that you added to the card, in the folder or on the Hub, is kept. A card in the folder that you wrote yourself is
    uploaded unchanged. If you wrote only the card on the Hub yourself, this card is kept.

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
        OSError: The Hub cannot be reached, or refuses the upload. Weights, code and tokenizer of the folder are
            unchanged.
    """
    folder = Path(checkpoint)
    check_checkpoint(folder)
    with claimed(folder) if os.access(folder, os.W_OK) else nullcontext():  # not while a training saves to it
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
    warn_of_parser_folder(parser_of(folder))
    api = HfApi(token=token)
    again = {"--private": private or None, "--branch": branch}
    again |= {f"--{name}": metadata.get(name) for name in ("license", "language")}
    with hub_upload_errors(f"upload {str(folder)!r} to {repo_id!r}", _remedy(folder, repo_id, again)):
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and not api.model_info(repo_id).private:
            raise ValueError(
                f"{repo_id} exists already and is public: make it private on its settings page first, or leave out"
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
        if commit.oid == head:  # no file has changed, so the card may pin an earlier commit
            commit = dataclasses.replace(commit, oid=_last_change(api, repo_id, head, card))
        has_custom_card = _has_custom_card(folder)
        if card is not None and has_text(card) and not is_ours(card) and not has_custom_card:
            logger.warning("The card of %s was not written by hf-localattn and is kept.", repo_id)
            return commit
        language = _language_of_base(api, folder)
        renew_card(folder, repo_id=repo_id, revision=commit.oid, published=card, base_language=language, **metadata)
        results = [] if has_custom_card else [EVAL_RESULTS]  # written with the card
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message="Model card",
            revision=branch,
            allow_patterns=[CARD, *results],
            delete_patterns=[name for name in results if name in there and not (folder / name).is_file()],
        )
    return commit


def _language_of_base(api: HfApi, folder: Path) -> str | list[str] | None:
    """Return the languages in the card of the base model; None if they are not known."""
    base_model = base_model_of(read_config(folder), TrainingRecord.load(folder))
    if base_model is None:
        return None
    try:
        language = ModelCard(_card_of(api, base_model) or "", ignore_metadata_errors=True).data.get("language")
    except (OSError, ValueError):  # no such model, no access, or metadata that cannot be read
        return None
    return language if isinstance(language, str | list) else None


def _remedy(folder: Path, repo_id: str, options: Mapping[str, Any]) -> str:
    """Return the instructions of an error message to complete the upload."""
    words = [str(folder), repo_id]
    for name, value in options.items():
        if value is not None:
            words += [name] if value is True else [name, str(value)]
    return (
        "Weights, code and tokenizer in the folder are unchanged. Remove the cause, then upload the missing files:"
        f" `hf-localattn push {shlex.join(words)}`."
    )


def shared_files(folder: Path) -> list[str]:
    """Return the names of the files of a checkpoint folder to upload."""
    return sorted(path.name for path in folder.iterdir() if path.is_file() and _matches(path.name, SHARED))


def check_checkpoint(folder: Path) -> None:
    """Raise `ValueError` for a folder that must not be uploaded.

    Its weights are missing, damaged or pickled; a file is a link; or a file names code that is not beside it.
    """
    _check_code(folder)
    if weights := sorted(folder.glob("*.safetensors")):
        for path in weights:
            check_weights(path)
        return
    if pickled := sorted(path.name for path in folder.glob("*.bin")):
        raise ValueError(f"{folder} has its weights in {pickled[0]}. {CONVERSION}")
    raise ValueError(f"{folder} has no weights: there is no .safetensors file.")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a file name matches a pattern. Files in subfolders never match, although `*` matches "/"."""
    return "/" not in name and any(fnmatch(name, pattern) for pattern in patterns)


def _has_custom_card(folder: Path) -> bool:
    path = folder / CARD
    return path.is_file() and not is_ours(path.read_text(encoding="utf-8"))


def _card_of(api: HfApi, repo_id: str, revision: str | None = None) -> str | None:
    """Return the card on the Hub; None if there is none."""
    try:
        path = hf_hub_download(repo_id, CARD, revision=revision, token=api.token)
    except EntryNotFoundError:
        return None
    return Path(path).read_text(encoding="utf-8")


def _last_change(api: HfApi, repo_id: str, head: str, card: str | None) -> str:
    """Return the commit that the card pins if only card and scores have changed since then; else return the head."""
    pinned = pinned_commit(card, repo_id) if card is not None else None
    if pinned is None:
        return head

    def files(revision: str) -> dict[str, str]:
        tree = api.list_repo_tree(repo_id, revision=revision, recursive=True)
        unpinned = (CARD, EVAL_RESULTS)
        return {
            entry.path: entry.blob_id for entry in tree if hasattr(entry, "blob_id") and entry.path not in unpinned
        }

    try:
        return pinned if files(pinned) == files(head) else head
    except EntryNotFoundError:  # the commit does not exist any more
        return head


def _check_code(folder: Path) -> None:
    """Refuse files to upload that name other code or are links. Warn if code files differ from the package's.

    Uploading follows links, so a link could publish any file of this machine.

    Raises:
        ValueError: A file to upload is no regular file, or names code that is not beside it.
    """
    names = [path.name for path in folder.iterdir() if path.name == CARD or _matches(path.name, SHARED)]
    if links := [name for name in sorted(names) if not is_regular(folder / name, folder)]:
        raise ValueError(f"{folder / links[0]} is a link: replace it with the file.")
    if read_config(folder)["model_type"] not in FAMILIES:
        return
    code = verify_checkpoint(folder, subfolders=False)
    others = [file for file in code.others if file.name in names or file.verdict == MISSING]
    for file in others:
        if file.note:
            raise ValueError(f"{folder / file.name}: {file.note}, which is no code of this folder: remove it.")
    if others:
        logger.warning(
            "The code of %s differs from hf_localattn %s: %s. It runs when the model is loaded with"
            " trust_remote_code=True. To restore the package's files, load and save the model.",
            *(folder, code.compared_with, ", ".join(f"{file.name} ({file.verdict})" for file in others)),
        )


def parser_of(folder: Path) -> str | None:
    """Return the parser named in the tokenizer configuration of a checkpoint, or None."""
    path = folder / "tokenizer_config.json"
    settings = parse_json(read_utf8(path), str(path)) if path.is_file() else {}
    if not isinstance(settings, dict):
        raise ValueError(f"{path} is not the configuration of a tokenizer: it must be an object.")
    parser = settings.get("parser")
    return parser if isinstance(parser, str) else None
