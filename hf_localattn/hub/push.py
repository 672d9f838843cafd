"""Uploading checkpoint folders to the Hub: weights, code and tokenizer first, then a card that pins their commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi

from hf_localattn.errors import sharing
from hf_localattn.hub.model_card import CARD, pinned_revision, read_config, renew_card
from hf_localattn.models.modeling_local_attention import CONVERSION

KEPT_HERE = (
    *("checkpoint-*/**", "fold-*/**", "_*", "_*/**", ".*", ".*/**", "runs/**", "*.log"),
    *("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt", "optimizer*", "scheduler*"),
)
"""What belongs to the machine that trained: other checkpoints, optimizer states, logs; and whatever is a pickle."""

TRAINER_ARGUMENTS = "training_args.bin"
"""A pickle that Trainer uploads with every checkpoint during training, and that nobody needs afterwards."""


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

    Repeating it after a failure completes what is missing; repeating it after a success changes nothing. A card that
    was not written here is uploaded as it is.

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
        ValueError: its weights are not safetensors, or its card cannot be renewed.
        OSError: the Hub is out of reach, or refuses; the folder is as it was.
    """
    folder = Path(checkpoint)
    check_weights(folder)
    api = HfApi(token=token)
    with sharing(str(folder), repo_id):
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        before = api.model_info(repo_id, revision=branch).sha
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message or f"Upload {read_config(folder)['model_type']} model",
            revision=branch,
            ignore_patterns=[CARD, *KEPT_HERE],
            delete_patterns=TRAINER_ARGUMENTS,
        )
        # Where nothing was new the last commit may be that of the card, which says itself what it belongs to.
        revision = commit.oid if commit.oid != before else pinned_revision(folder) or commit.oid
        renew_card(folder, repo_id=repo_id, revision=revision, **metadata)
        api.upload_file(
            path_or_fileobj=folder / CARD,
            path_in_repo=CARD,
            repo_id=repo_id,
            revision=branch,
            commit_message="Model card",
        )
    return commit


def check_weights(folder: Path) -> None:
    """Raise `ValueError` if the weights of a checkpoint folder are not there, or would have to be unpickled."""
    read_config(folder)
    if any(folder.glob("*.safetensors")):
        return
    if pickled := sorted(path.name for path in folder.glob("*.bin")):
        raise ValueError(f"{folder} has its weights in {pickled[0]}. {CONVERSION}")
    raise ValueError(f"{folder} has no weights: there is no .safetensors file.")
