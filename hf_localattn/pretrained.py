"""Loading backbones and tokenizers, with checks for mistakes that otherwise show up much later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from hf_localattn.errors import loading
from hf_localattn.resources import tiny_backbone

TOKENIZER_FILES = ("tokenizer*", "vocab*", "*.model", "merges.txt", "*.tokenizer", "*.vocab")


def resolve_backbone(name_or_path: str | os.PathLike[str], *, generates: bool = False) -> str:
    """Return where a backbone is loaded from: "tiny" is the small random one that ships, other names stay as they are.

    Args:
        name_or_path: Hub id, folder, "tiny", or "tiny-bart", which is an encoder-decoder.
        generates: whether "tiny" has to be one too.

    Raises:
        FileNotFoundError: what is plainly a path leads to no folder with a `config.json`.
    """
    if name_or_path in ("tiny", "tiny-bart"):
        return str(tiny_backbone(generates=generates or name_or_path == "tiny-bart"))
    path = Path(name_or_path).expanduser()
    plainly_a_path = path.exists() or path.is_absolute() or str(name_or_path).startswith(("./", "../", "~"))
    if plainly_a_path and not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{str(name_or_path)!r} is not a folder with a `config.json`. Give the folder of a saved encoder, the id "
            "of one on the Hub, or 'tiny'."
        )
    return str(path) if plainly_a_path else str(name_or_path)


def load_tokenizer(name_or_path: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """Load a tokenizer, as `AutoTokenizer.from_pretrained` does.

    Raises:
        ValueError: there is none (transformers then makes one up, which knows no word).
        OSError: it cannot be fetched.
    """
    folder = Path(name_or_path)
    made_up = folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES)
    with loading("tokenizer", name_or_path, kwargs.get("cache_dir")):
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **kwargs)
    if made_up or len(tokenizer) <= len(set(tokenizer.all_special_tokens)):
        raise ValueError(
            f"{name_or_path!r} has no tokenizer files. Save the tokenizer beside the model, or name another one."
        )
    return tokenizer


def missing_inputs(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> str:
    """Name, in one line, what a model needs of each text and a tokenizer does not give; empty if there is nothing."""
    needed = getattr(config, "required_inputs", ())  # which stock configurations do not know
    return ", ".join(name for name in needed if name not in tokenizer.model_input_names)
