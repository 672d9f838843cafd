"""Loading of checkpoints and tokenizers, with early checks for mistakes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.errors import join_names, loading
from hf_localattn.families import AUTO_CLASSES, FAMILIES, family_of, task_of_class
from hf_localattn.installed.configurations import load_config
from hf_localattn.installed.files import as_data, check_checkpoint, quiet_weights
from hf_localattn.names import resolve_backbone

logger = logging.getLogger(__name__)


def load_checkpoint(
    name: str | os.PathLike[str],
    *,
    task: str | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    config_name: str | None = None,
    config_fields: Mapping[str, Any] = MappingProxyType({}),
    tokenizer_name: str | None = None,
    hub: Mapping[str, Any] = MappingProxyType({}),
    trust_remote_code: bool = False,
    **model_arguments: Any,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model in float32 and for evaluation, and its tokenizer.

    The log tells of a new head, and warns if weights of the encoder are not those of the checkpoint.

    Args:
        name: Hub id or folder.
        task (*optional*): Key of `hf_localattn.families.AUTO_CLASSES`. Defaults to the head that the model was saved
            with.
        settings (*optional*): Settings of the tokenizer.
        config_name (*optional*): Hub id or folder of the configuration, if not the model's.
        config_fields (*optional*): Fields of the configuration that replace those of the checkpoint.
        tokenizer_name (*optional*): Hub id or folder of the tokenizer, if not the model's.
        hub (*optional*): Arguments of `from_pretrained` that say where files are: `cache_dir`, `revision`, `token`.
        trust_remote_code (*optional*, defaults to False): If True, run the code of the checkpoint.
        **model_arguments: Arguments of the model's `from_pretrained`, such as `attn_implementation`.

    Raises:
        ValueError: The checkpoint is invalid, or the tokenizer has no such setting.
        CheckpointError: The checkpoint sets what a stranger's may not.
        OSError: The checkpoint cannot be loaded.
    """
    checkpoint = resolve_backbone(name, generates=task == "text2text-generation")
    options = {**hub, "trust_remote_code": trust_remote_code}
    with loading("model" if config_name is None else "config", config_name or checkpoint):
        config = load_config(config_name or checkpoint, trust_remote_code=trust_remote_code, hub=hub, **config_fields)
    check_tokenizer_settings(config.model_type, settings)
    tokenizer = load_tokenizer(tokenizer_name or checkpoint, **settings, **options)
    family = family_of(config)
    if family is not None and family.needs_parse(config) and hasattr(tokenizer, "check_parser"):
        tokenizer.check_parser()  # raise errors before the model is loaded and features are made
    task = task or task_of_class(next(iter(config.architectures or ()), ""))
    auto_class: Any = AutoModel if task is None else AUTO_CLASSES[task]
    arguments = {"config": config, "dtype": torch.float32, **model_arguments, **options}
    with loading("model", checkpoint), as_data(checkpoint, arguments), quiet_weights("LOAD REPORT"):
        model, report = auto_class.from_pretrained(checkpoint, output_loading_info=True, **arguments)
    _tell_of_other_weights(checkpoint, model, report)
    return model.eval(), tokenizer


def _tell_of_other_weights(name: str, model: PreTrainedModel, report: Mapping[str, Any]) -> None:
    """Log weights that are not those of the checkpoint. A new head is meant, another encoder is not."""
    parts = {part for part, _ in model.base_model.named_children()} - {"pooler"}

    def is_of_encoder(weight: str) -> bool:
        return weight.removeprefix(f"{model.base_model_prefix}.").partition(".")[0] in parts

    other_sizes = {weight for weight, *_ in report["mismatched_keys"]}
    problems = {
        "lacks weights": report["missing_keys"],
        "has weights of another size": other_sizes,
        "has weights that this model does not use": report["unexpected_keys"],
    }
    for problem, weights in problems.items():
        if of_encoder := sorted(filter(is_of_encoder, weights)):
            names = join_names(of_encoder, 2)
            logger.warning("%s %s: %s. Check that this is the right model.", name, problem, names)
    random = {*report["missing_keys"], *other_sizes}
    if of_head := sorted(weight for weight in random if not is_of_encoder(weight)):
        logger.info("New weights, which training has to learn: %s.", join_names(of_head))


def check_tokenizer_settings(model_type: str, names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that is no setting of the tokenizer of a checkpoint of a model type."""
    settings = FAMILIES[model_type].tokenizer_settings if model_type in FAMILIES else ()
    for name in names:
        if name not in settings:
            raise ValueError(
                f"{name!r} cannot be set: the fields of a checkpoint are fixed, and the tokenizer of this"
                f" {model_type!r} checkpoint has {', '.join(settings) or 'no'} settings."
            )


def load_tokenizer(name_or_path: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """Load a tokenizer with `AutoTokenizer.from_pretrained`, whose files are data.

    Args:
        name_or_path: Hub id or folder.
        **kwargs: Arguments of `AutoTokenizer.from_pretrained`.

    Raises:
        ValueError: There are no tokenizer files. transformers would return a tokenizer without a vocabulary.
        CheckpointError: The checkpoint sets what a stranger's may not.
        OSError: The tokenizer cannot be loaded or downloaded.
    """
    with loading("tokenizer", name_or_path):
        if not kwargs.setdefault("trust_remote_code", False):
            check_checkpoint(name_or_path, kwargs, weights=False)
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
