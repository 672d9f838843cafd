"""Loading of backbones and tokenizers, with early checks for mistakes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from hf_localattn.errors import loading
from hf_localattn.resources import NAMED_BACKBONES

TOKENIZER_FILES = ("tokenizer*", "vocab*", "*.model", "merges.txt", "*.tokenizer", "*.vocab")


def resolve_backbone(name_or_path: str | os.PathLike[str], *, generates: bool = False) -> str:
    """Return the Hub id or folder of a backbone.

    Args:
        name_or_path: Hub id; folder; "tiny" for the small random encoder of this package; or "tiny-bart" for its small
            random encoder-decoder.
        generates: if True, "tiny" also means the encoder-decoder.

    Raises:
        FileNotFoundError: the argument is a path, but there is no folder with a `config.json` at that path.
    """
    name = str(name_or_path)
    if name in NAMED_BACKBONES:
        return NAMED_BACKBONES["tiny-bart" if generates else name]
    path = Path(name_or_path).expanduser()
    plainly_a_path = path.exists() or path.is_absolute() or str(name_or_path).startswith(("./", "../", "~"))
    if plainly_a_path and not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{str(name_or_path)!r} is not a folder with a `config.json`. Give the folder of a saved encoder, the id "
            "of one on the Hub, or 'tiny'."
        )
    return str(path) if plainly_a_path else str(name_or_path)


def load_tokenizer(name_or_path: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """Load a tokenizer with `AutoTokenizer.from_pretrained`.

    Args:
        name_or_path: Hub id or folder.
        **kwargs: arguments of `AutoTokenizer.from_pretrained`.

    Raises:
        ValueError: there are no tokenizer files. transformers would return a tokenizer without a vocabulary.
        OSError: the tokenizer cannot be loaded or downloaded.
    """
    folder = Path(name_or_path)
    has_files = not folder.is_dir() or any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES)
    with loading("tokenizer", name_or_path):
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **kwargs)
    if not has_files or len(tokenizer) <= len(set(tokenizer.all_special_tokens)):
        raise ValueError(
            f"{name_or_path!r} has no tokenizer files. Save the tokenizer to the folder of the model, or name another"
            " one."
        )
    return tokenizer


def missing_inputs(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> str:
    """Return the names of a model's required inputs that a tokenizer does not return, joined by commas."""
    needed = getattr(config, "required_inputs", ())  # stock configurations have no such property
    return ", ".join(name for name in needed if name not in tokenizer.model_input_names)
