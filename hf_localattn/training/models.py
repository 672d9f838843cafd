"""Loading of the model and tokenizer of a run: a checkpoint, or a backbone with new layers of a family."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, set_seed

from hf_localattn.assignments import check_tokenizer_settings
from hf_localattn.errors import loading
from hf_localattn.names import PLAIN, resolve_backbone
from hf_localattn.pretrained import load_tokenizer, missing_inputs
from hf_localattn.registry import AUTO_CLASSES, family_of, get_family, task_of_class
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.optimizers import pretrained_parameters, split_parameter_groups


def load_model_and_tokenizer(
    task: str, model_args: ModelArguments, training_args: TrainingArguments, **config_fields: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the model in fp32, and its tokenizer. Layers that the checkpoint lacks are initialized randomly.

    Args:
        task: a key of `hf_localattn.registry.AUTO_CLASSES`.
        model_args: the model.
        training_args: the seed of new layers, and the learning rate of local layers.
        **config_fields: fields of the configuration that depend on the data, such as `num_labels`.
    """
    set_seed(training_args.seed)  # for the initialization of new layers
    hub, trust = model_args.hub, {"trust_remote_code": model_args.trust_remote_code}
    source = resolve_backbone(model_args.source, generates=task == "text2text-generation")
    tokenizer_source = model_args.tokenizer_name or source
    if model_args.family in (None, PLAIN):
        config_source = model_args.config_name or source
        with loading("config", config_source):
            config = AutoConfig.from_pretrained(config_source, **config_fields, **hub, **trust)
        check_tokenizer_settings(config.model_type, model_args.local_fields)
        tokenizer = load_tokenizer(tokenizer_source, **model_args.local_fields, **hub, **trust)
        own = family_of(config)
        if own is not None and own.needs_parse(config) and hasattr(tokenizer, "check_parser"):
            tokenizer.check_parser()  # raise errors before the model is loaded and features are made
        with loading("model", source):
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
        fields, settings = family.split_fields(model_args.local_fields)
        if task not in family.heads:
            raise ValueError(
                f"The family {model_args.family!r} has no model for {task}; it has models for"
                f" {', '.join(family.heads)}."
            )
        tokenizer = load_tokenizer(tokenizer_source, **hub, **trust)
        with loading("backbone", source):
            model = family.heads[task].from_backbone(source, **hub, **fields, **config_fields)
        tokenizer = family.adapt_tokenizer(tokenizer, model, **settings)
    missing = missing_inputs(tokenizer, model.config)
    if missing:
        own = get_family(model.config.model_type).tokenizer  # only models of a family have additional inputs
        raise ValueError(
            f"The model needs the inputs {missing}, which this tokenizer does not return. Use the tokenizer of the"
            f" family {model.config.model_type!r} ({own.__name__}; settings: {', '.join(own.SETTINGS)})."
        )
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens, but the model has embeddings for {rows}: they do not belong"
            " together. Check --tokenizer_name."
        )
    model = model.to(torch.float32)
    if training_args.local_learning_rate is not None:  # raise errors before training begins
        groups = [{"params": [parameter for parameter in model.parameters() if parameter.requires_grad]}]
        split_parameter_groups(groups, pretrained_parameters(model), training_args.local_learning_rate)
    return model, tokenizer


def head_config(model_args: ModelArguments, task: str) -> PreTrainedConfig | None:
    """Return the configuration of a checkpoint with a head for a task; None if the model gets a new head."""
    if model_args.family not in (None, PLAIN):
        return None
    source = model_args.config_name or resolve_backbone(model_args.source)
    with loading("config", source):
        config = AutoConfig.from_pretrained(source, **model_args.hub, trust_remote_code=model_args.trust_remote_code)
    return config if task in map(task_of_class, config.architectures or ()) else None
