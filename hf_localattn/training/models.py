"""The model and the tokenizer of a run: a checkpoint, or a family's fresh layers on a plain backbone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, set_seed

from hf_localattn.assignments import parse_config_fields, parse_tokenizer_settings
from hf_localattn.errors import loading
from hf_localattn.pretrained import load_tokenizer, missing_inputs, resolve_backbone
from hf_localattn.registry import AUTO_CLASSES, family_of, get_family
from hf_localattn.training.arguments import PLAIN, ModelArguments, TrainingArguments
from hf_localattn.training.optimizer_settings import check_same_optimizer
from hf_localattn.training.output_folder import check_same_model
from hf_localattn.training.parameter_groups import pretrained_parameters, split_parameter_groups


def load_model_and_tokenizer(
    task: str, model_args: ModelArguments, training_args: TrainingArguments, **config_fields: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the model in fp32, with fresh layers where the checkpoint has none for them, and its tokenizer.

    Args:
        task: a key of `hf_localattn.registry.AUTO_CLASSES`.
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
        own = family_of(config)
        if own is not None and own.needs_parse(config) and hasattr(tokenizer, "check_parser"):
            tokenizer.check_parser()  # better now than when the model is loaded and features are made
        with loading("model", source, model_args.cache_dir), _one_of_its_class(task, model_args.source):
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
        with loading("backbone", source, model_args.cache_dir), _one_of_its_class(task, model_args.source):
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


@contextmanager
def _one_of_its_class(task: str, source: str) -> Iterator[None]:
    """Say in a line that a model cannot do a task, where transformers lists all those that can."""
    try:
        yield
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        if task == "text2text-generation":
            raise ValueError(
                f"{source!r} cannot write: it is no encoder-decoder for text. Give one such as BART"
                " (facebook/bart-base) or ProphetNet (microsoft/prophetnet-large-uncased)."
            ) from error
        raise ValueError(
            f"{source!r} is of a type that transformers has no model for {task} of: choose another one."
        ) from error


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
