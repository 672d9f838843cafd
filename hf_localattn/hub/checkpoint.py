"""Complete checkpoint folders of a family, ready for any script that takes a model name and `trust_remote_code`."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedTokenizerBase

from hf_localattn.claims import LOCK, claimed
from hf_localattn.errors import loading
from hf_localattn.files import UNFINISHED, atomic_directory, atomic_write, remove_leftovers
from hf_localattn.models.config_checks import check_shared_fields
from hf_localattn.parsing import parse_json, read_utf8
from hf_localattn.pretrained import load_tokenizer, missing_inputs, resolve_backbone
from hf_localattn.registry import get_family

logger = logging.getLogger(__name__)


def init_checkpoint(
    family: str,
    backbone: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    seed: int = 0,
    **config_fields: Any,
) -> Path:
    """Write a folder with a pretrained backbone under new local layers: what a stock script fine-tunes.

    It holds the headless model, or above an encoder-decoder the generating one (safetensors), its configuration, whose
    `auto_map` names every head of the family, the code files, and the tokenizer, the backbone's or the family's own.
    Where writing fails the folder is as it was; where it was killed the same call writes it anew.

    Args:
        family: a key of `hf_localattn.registry.FAMILIES`.
        backbone: Hub id, folder, or "tiny" or "tiny-bart", small random backbones that ship with this package.
        output_dir: a folder that does not exist yet, or is empty.
        revision, token: of the backbone on the Hub.
        seed: of the new weights: the same call writes the same folder.
        **config_fields: fields of the family's configuration, and settings of its tokenizer.

    Raises:
        FileExistsError: the folder holds something already.
        ValueError: another process is at the folder, an unknown family or field, an impossible value, or a backbone
            that cannot serve.
        OSError: the backbone cannot be fetched.
    """
    output = Path(output_dir)
    if output.exists() and not output.is_dir():
        raise _in_the_way(output)
    with claimed(output):
        remove_leftovers(output)
        if {path.name for path in output.iterdir()} - {LOCK} and not _is_unfinished(output):
            raise _in_the_way(output)
        classes = get_family(family)
        fields, settings = classes.split_fields(config_fields)
        source = resolve_backbone(backbone)
        tokenizer = load_tokenizer(source, revision=revision, token=token)
        with loading("backbone", source), torch.random.fork_rng():
            torch.manual_seed(seed)
            model_class = classes.initial_model(AutoConfig.from_pretrained(source, revision=revision, token=token))
            model = model_class.from_backbone(source, revision=revision, token=token, **fields)
            tokenizer = classes.adapt_tokenizer(tokenizer, model, **settings)
        warn_of_parser(tokenizer, model.config)

        with atomic_directory(output) as unfinished:
            model.save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
            atomic_write(output / UNFINISHED, _INIT)  # whoever is killed from here on leaves a part of it
        (output / UNFINISHED).unlink()
    return output


def read_config(checkpoint: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the `config.json` of a checkpoint folder.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no configuration of a model.
    """
    path = Path(checkpoint, "config.json")
    if not path.parent.exists():
        raise FileNotFoundError(f"There is no folder {str(checkpoint)!r}. Give the folder of a saved model.")
    if not path.is_file():
        raise FileNotFoundError(f"{str(checkpoint)!r} is no checkpoint folder: it has no config.json.")
    try:
        config = parse_json(read_utf8(path), str(path))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ValueError(f"{path} is no configuration of a model: it has no `model_type`.")
    if not isinstance(config.get("backbone_config"), dict | None):
        raise ValueError(f"{path} is no configuration of a model: its `backbone_config` must be an object.")
    try:
        check_shared_fields(config)
    except ValueError as error:
        raise ValueError(f"{path} is no configuration of a model: {error}") from None
    return config


_INIT = "init"
"""Content of the file that marks a folder which `init_checkpoint` has not finished."""


def _is_unfinished(output: Path) -> bool:
    marker = output / UNFINISHED
    return marker.is_file() and marker.read_text(encoding="utf-8") == _INIT


def _in_the_way(output: Path) -> FileExistsError:
    return FileExistsError(f"{str(output)!r} is in the way: choose a folder that does not exist yet, or empty it.")


def warn_of_parser(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> None:
    """Warn if the tokenizer of a checkpoint cannot parse here, or only if the caller names its parser."""
    missing = missing_inputs(tokenizer, config)
    if missing:
        logger.warning("The tokenizer has no parser: give it ready-made heads, or there is no %s.", missing)
    elif hasattr(tokenizer, "check_parser"):
        try:
            tokenizer.check_parser()
        except (ImportError, OSError, ValueError) as error:
            logger.warning("The tokenizer cannot parse here yet. %s", error)
        else:
            warn_of_parser_folder(tokenizer.parser)


def warn_of_parser_folder(parser: str | None) -> None:
    """Warn of a parser that is a folder: others do not have it, and a checkpoint alone does not get it loaded."""
    if parser is not None and not parser.isidentifier():
        logger.warning(
            "The tokenizer parses with the folder %s. Others do not have it: for a checkpoint to share name a pipeline"
            " that they can install. Here name the folder again wherever the checkpoint is loaded without"
            " trust_remote_code: AutoTokenizer.from_pretrained(CHECKPOINT, parser=%r), in scripts --local_config"
            " parser=%s, in hf-localattn inspect --config parser=%s.",
            *(parser, parser, parser, parser),
        )
