"""The model and the tokenizer of a run: a checkpoint, or a family's fresh layers on a plain backbone."""

from __future__ import annotations

import logging
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, set_seed

from hf_localattn.errors import loading
from hf_localattn.families import AUTO_CLASSES, get_family, parse_config_fields, parse_tokenizer_settings
from hf_localattn.inference import longest_input
from hf_localattn.pretrained import load_tokenizer, missing_inputs, resolve_backbone
from hf_localattn.training.arguments import PLAIN, DataArguments, ModelArguments, TrainingArguments
from hf_localattn.training.optimizer_settings import check_same_optimizer
from hf_localattn.training.output_folder import check_same_model
from hf_localattn.training.parameter_groups import pretrained_parameters, split_parameter_groups
from hf_localattn.training.splits import Data

logger = logging.getLogger(__name__)


def load_model_and_tokenizer(
    task: str, model_args: ModelArguments, training_args: TrainingArguments, **config_fields: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the model in fp32, with fresh layers where the checkpoint has none for them, and its tokenizer.

    Args:
        task: a key of `hf_localattn.families.AUTO_CLASSES`.
        model_args: which model.
        training_args: the seed of fresh layers, and the checkpoint that training goes on from, which has to fit.
        **config_fields: what the data say of the model, such as `num_labels`.

    Raises:
        ValueError: names, fields, model or tokenizer do not go together.
        OSError: something cannot be fetched.
    """
    set_seed(training_args.seed)  # new layers are random
    hub: dict[str, Any] = {
        "cache_dir": model_args.cache_dir,
        "revision": model_args.model_revision,
        "token": model_args.token,
    }
    trust = {"trust_remote_code": model_args.trust_remote_code}
    source = resolve_backbone(model_args.source, generates=task == "text2text-generation")
    tokenizer_source = model_args.tokenizer_name or source
    if model_args.family in (None, PLAIN):
        with loading("config", model_args.config_name or source, model_args.cache_dir):
            config = AutoConfig.from_pretrained(model_args.config_name or source, **config_fields, **hub, **trust)
        settings = parse_tokenizer_settings(config.model_type, model_args.local_config)
        tokenizer = load_tokenizer(tokenizer_source, **settings, **hub, **trust)
        if "dep_heads" in getattr(config, "needed_inputs", ()) and hasattr(tokenizer, "check_parser"):
            tokenizer.check_parser()  # better now than when the model is loaded and features are made
        with loading("model", source, model_args.cache_dir):
            model = AUTO_CLASSES[task].from_pretrained(
                source,
                config=config,
                dtype=torch.float32,
                ignore_mismatched_sizes=model_args.ignore_mismatched_sizes,
                **hub,
                **trust,
            )
    else:
        assert model_args.family is not None
        family = get_family(model_args.family)
        fields, settings = family.split_fields(parse_config_fields(model_args.family, model_args.local_config))
        if task not in family.heads:
            raise ValueError(
                f"The family {model_args.family!r} has no model for {task}; it has {', '.join(family.heads)}."
            )
        tokenizer = load_tokenizer(tokenizer_source, **hub, **trust)
        with loading("backbone", source, model_args.cache_dir):
            model = family.heads[task].from_backbone(source, **hub, **fields, **config_fields)
        tokenizer = family.adapt_tokenizer(tokenizer, model, **settings)
    missing = missing_inputs(tokenizer, model.config)
    if missing:
        own = get_family(model.config.model_type).tokenizer  # stock models need nothing special
        raise ValueError(
            f"The model needs {missing} of each text, which this tokenizer does not give: that of the family"
            f" {model.config.model_type!r} does ({own.__name__}; settings: {', '.join(own.SETTINGS)})."
        )
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"The tokenizer knows {len(tokenizer)} tokens, but the model only {rows}: they do not belong together;"
            " check --tokenizer_name."
        )
    model = model.to(torch.float32)
    if training_args.do_train and training_args.resume_from_checkpoint:
        check_same_model(training_args.resume_from_checkpoint, model)
        check_same_optimizer(training_args.resume_from_checkpoint, training_args)
    if training_args.local_learning_rate is not None:  # of what? better asked now than when training begins
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        split_parameter_groups(
            [{"params": parameters}], pretrained_parameters(model), training_args.local_learning_rate
        )
    return model, tokenizer


def head_config(model_args: ModelArguments, head: str) -> PreTrainedConfig | None:
    """Return the configuration of a checkpoint that has such a head; None if the model will get a fresh one.

    Args:
        model_args: which model.
        head: how its class's name ends, such as "ForTokenClassification".

    Raises:
        ValueError, OSError: the configuration cannot be loaded.
    """
    if model_args.family not in (None, PLAIN):
        return None
    source = model_args.config_name or resolve_backbone(model_args.source)
    with loading("config", source, model_args.cache_dir):
        config = AutoConfig.from_pretrained(
            source,
            cache_dir=model_args.cache_dir,
            revision=model_args.model_revision,
            token=model_args.token,
            trust_remote_code=model_args.trust_remote_code,
        )
    return config if any(name.endswith(head) for name in config.architectures or ()) else None


def check_room(tokenizer: PreTrainedTokenizerBase, max_length: int, *, pair: bool) -> None:
    """Raise `ValueError` if special tokens alone fill a text, or a pair of texts."""
    special = tokenizer.num_special_tokens_to_add(pair=pair)
    if max_length <= special:
        raise ValueError(f"--max_seq_length {max_length} leaves no room for text: {special} tokens are special ones.")


def report_cut(features: Data, max_length: int) -> None:
    """Warn of inputs that are as long as can be, as they have been cut, all but a few."""
    for split, rows in features.items():
        lengths = ([ids] if not ids or isinstance(ids[0], int) else ids for ids in rows["input_ids"])
        full = sum(any(len(one) >= max_length for one in own) for own in lengths)
        if full:
            logger.warning(
                "%d of %d %s rows fill the %d tokens of --max_seq_length: what goes beyond is cut.",
                full,
                len(rows),
                split,
                max_length,
            )


def batch_padding(data_args: DataArguments, training_args: TrainingArguments, max_length: int) -> dict[str, Any]:
    """Return how a collator pads: to the longest row, or `--pad_to_max_length`; to what suits half precision."""
    return {
        "padding": "max_length" if data_args.pad_to_max_length else True,
        "max_length": max_length if data_args.pad_to_max_length else None,
        "pad_to_multiple_of": 8 if training_args.fp16 or training_args.bf16 else None,
    }


def input_length(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: DataArguments, name: str = "max_seq_length"
) -> int:
    """Return the length of this name, cut (with a warning) to what model and tokenizer can take."""
    wanted, limit = getattr(data_args, name), longest_input(model, tokenizer)
    if limit is None or wanted <= limit:
        return wanted
    own = ""
    if limit == getattr(model.config, "max_tokens", None):
        own = " (its tam_max_length; a larger one, or tam_ffn=token, takes longer texts)"
    logger.warning("%s %d is more than the model takes%s: using %d.", name, wanted, own, limit)
    return limit
