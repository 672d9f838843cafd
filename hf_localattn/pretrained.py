"""Loading of tokenizers, with early checks for mistakes."""

from __future__ import annotations

from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from hf_localattn.errors import loading


def load_tokenizer(name_or_path: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """Load a tokenizer with `AutoTokenizer.from_pretrained`.

    Args:
        name_or_path: Hub id or folder.
        **kwargs: Arguments of `AutoTokenizer.from_pretrained`.

    Raises:
        ValueError: There are no tokenizer files. transformers would return a tokenizer without a vocabulary.
        OSError: The tokenizer cannot be loaded or downloaded.
    """
    with loading("tokenizer", name_or_path):
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **kwargs)
    special_tokens = set(tokenizer.all_special_tokens)
    if len(tokenizer) <= len(special_tokens) + 2:  # some classes have one or two pieces of their own
        raise ValueError(
            f"{name_or_path!r} has no tokenizer files. Save the tokenizer to the folder of the model, or name another"
            " one."
        )
    return tokenizer


def missing_inputs(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> str:
    """Return the names of a model's required inputs that a tokenizer does not return, joined by commas."""
    required = getattr(config, "required_inputs", ())  # stock configurations have no such property
    return ", ".join(name for name in required if name not in tokenizer.model_input_names)
