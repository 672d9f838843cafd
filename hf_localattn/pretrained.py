"""Loading of checkpoints and tokenizers, with early checks for mistakes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_localattn.assignments import parse_tokenizer_settings
from hf_localattn.errors import loading
from hf_localattn.names import resolve_backbone
from hf_localattn.registry import AUTO_CLASSES, task_of_class


def load_checkpoint(
    name: str | os.PathLike[str],
    *,
    settings: Sequence[str] = (),
    trust_remote_code: bool = False,
    **model_arguments: Any,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with the head that it was saved with, in float32 and for evaluation, and its tokenizer.

    Args:
        name: Hub id or folder.
        settings (*optional*): `setting=value` strings for the tokenizer.
        trust_remote_code (*optional*, defaults to False): If True, run the code of the checkpoint.
        **model_arguments: Arguments of the model's `from_pretrained`, such as `attn_implementation`.

    Raises:
        ValueError: The checkpoint is invalid, or the tokenizer has no such setting.
        OSError: The checkpoint cannot be loaded.
    """
    source = resolve_backbone(name)
    trust = {"trust_remote_code": trust_remote_code}
    with loading("model", source):
        config = AutoConfig.from_pretrained(source, **trust)
    tokenizer_settings = parse_tokenizer_settings(config.model_type, settings)
    tokenizer = load_tokenizer(source, **tokenizer_settings, **trust)
    task = task_of_class(next(iter(config.architectures or ()), ""))
    auto_class: Any = AutoModel if task is None else AUTO_CLASSES[task]
    with loading("model", source):
        model = auto_class.from_pretrained(source, dtype=torch.float32, **model_arguments, **trust)
    return model.eval(), tokenizer


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
