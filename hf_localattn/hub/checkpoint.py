"""Checkpoint folders with new local layers, for scripts with a model name and `trust_remote_code` as arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_localattn.errors import loading
from hf_localattn.families import get_family
from hf_localattn.files import LOCK, UNFINISHED, atomic_directory, atomic_write, claimed, remove_leftovers
from hf_localattn.installed.backbones import family_fields
from hf_localattn.installed.configurations import load_config
from hf_localattn.installed.files import quiet_weights
from hf_localattn.names import resolve_backbone
from hf_localattn.pretrained import load_tokenizer

MOVING = "files are moved here"  # content of the marker file of a folder that `new_folder` has not finished


def init_checkpoint(
    family: str,
    backbone: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    seed: int = 0,
    task: str | None = None,
    trained: str | os.PathLike[str] | None = None,
    **config_fields: Any,
) -> Path:
    """Write a checkpoint folder with a pretrained backbone and new local layers. Any script can fine-tune it.

    Without `task` the model has no head, or is the generation model of an encoder-decoder. If writing fails, the
    folder is unchanged. If the process is killed, the same call writes it.

    Args:
        family: Name of the family, a key of `hf_localattn.families.FAMILIES`.
        backbone: Hub id or folder of the backbone; or "tiny" or "tiny-bart", small random backbones of this package.
        output_dir: Folder of the checkpoint. It must be empty or not exist.
        revision (*optional*, defaults to "main"): Branch, tag or commit of the backbone on the Hub.
        token (*optional*): Access token for the Hub. Defaults to the token of `hf auth login`.
        seed (*optional*, defaults to 0): Random seed of the new weights. The same call writes the same folder.
        task (*optional*): Task whose head the model has, a key of `heads` of the family. The head of "fill-mask" takes
            the backbone's pretrained weights.
        trained (*optional*): Checkpoint of the family on the same backbone, for example after masked language
            modeling. Its weights replace those of the new model, except for heads that it lacks. Its fields are the
            defaults of `config_fields`.
        **config_fields: Fields of the family's configuration, and settings of its tokenizer.

    Returns:
        The folder.

    Raises:
        FileExistsError: The folder is not empty.
        ValueError: The family or a field is unknown, a value is invalid, the backbone is not supported, or the folder
            is a file or in use by another process.
        OSError: The backbone, or a parser that the settings name, cannot be loaded.
    """
    with new_folder(output_dir) as unfinished:
        classes = get_family(family)
        if trained is not None:
            with loading("checkpoint", str(trained)):
                trained_config = classes.config.from_pretrained(trained)
            for name in family_fields(classes.config):
                config_fields.setdefault(name, getattr(trained_config, name))
        fields, settings = classes.split_fields(config_fields)
        source = resolve_backbone(backbone)
        tokenizer = load_tokenizer(source, revision=revision, token=token)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            with loading("backbone", source):
                backbone_config = load_config(source, hub={"revision": revision, "token": token})
                model_class = classes.initial_model(backbone_config, task)
                model = model_class.from_backbone(source, revision=revision, token=token, **fields)
            tokenizer = classes.adapt_tokenizer(tokenizer, model, **settings)
            if trained is not None:
                with loading("checkpoint", str(trained)):
                    _take_weights(model, trained)
        with quiet_weights():
            model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
    return Path(output_dir)


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a temporary folder whose files are moved to a new or empty folder when the block ends without an error.

    If the process is killed while moving, the next call treats the folder as empty.
    """
    marker = Path(folder, UNFINISHED)
    with claimed(folder):
        remove_leftovers(Path(folder))
        is_unfinished = marker.is_file() and marker.read_text(encoding="utf-8") == MOVING
        names = {path.name for path in Path(folder).iterdir()}
        if names - {LOCK} and not is_unfinished:
            raise FileExistsError(f"{str(folder)!r} exists already: choose a new or empty folder.")
        with atomic_directory(folder) as unfinished:
            yield Path(unfinished)
            atomic_write(marker, MOVING)
        marker.unlink()


def _take_weights(model: PreTrainedModel, checkpoint: str | os.PathLike[str]) -> None:
    """Copy the weights that a checkpoint has to a model."""
    trained, report = type(model).from_pretrained(checkpoint, output_loading_info=True)
    weights = trained.state_dict()
    for name in report["missing_keys"]:
        weights.pop(name, None)
    try:
        model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise ValueError(
            f"The weights of {str(checkpoint)!r} do not fit: {error}. Give its backbone and its settings."
        ) from error
