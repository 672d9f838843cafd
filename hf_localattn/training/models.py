"""Loading of the model and tokenizer of a run: a checkpoint, or a backbone with new layers of a family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from hf_localattn.errors import loading
from hf_localattn.families import get_family, task_of_class
from hf_localattn.installed.configurations import load_config
from hf_localattn.names import NO_FAMILY, resolve_backbone
from hf_localattn.pretrained import load_checkpoint, load_tokenizer, missing_inputs
from hf_localattn.tasks.labels import Head, checkpoint_labels
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.optimizers import pretrained_parameters, split_parameter_groups, tells_two_kinds

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def load_model_and_tokenizer(
    task: str, model_args: ModelArguments, training_args: TrainingArguments, **config_fields: Any
) -> Loaded:
    """Load the model in fp32, and its tokenizer. Layers that the checkpoint lacks are initialized randomly.

    Args:
        task: A key of `hf_localattn.families.AUTO_CLASSES`.
        model_args: The model.
        training_args: The seed of new layers, and the learning rate of local layers.
        **config_fields: Fields of the configuration that depend on the data, such as `num_labels`.
    """
    set_seed(training_args.seed)  # for the initialization of new layers
    load = _load_checkpoint if model_args.family in (None, NO_FAMILY) else _load_backbone
    model, tokenizer = load(task, model_args, config_fields)
    missing = missing_inputs(tokenizer, model.config)
    if missing:  # only models of a family have additional inputs
        tokenizer_class = get_family(model.config.model_type).tokenizer
        raise ValueError(
            f"The model needs the inputs {missing}, which this tokenizer does not return. Use the tokenizer of the"
            f" family {model.config.model_type!r} ({tokenizer_class.__name__}; settings:"
            f" {', '.join(tokenizer_class.SETTINGS)})."
        )
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens, but the model has embeddings for {rows}: they do not belong"
            " together. Check --tokenizer_name."
        )
    if tells_two_kinds(training_args):  # raise errors before training begins
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        groups = [{"params": parameters}]
        split_parameter_groups(groups, pretrained_parameters(model), training_args.local_learning_rate)
    return model, tokenizer


def _load_checkpoint(task: str, model_args: ModelArguments, config_fields: dict[str, Any]) -> Loaded:
    """Load a checkpoint of a family, or a plain backbone with a new head."""
    return load_checkpoint(
        model_args.source,
        task=task,
        settings=model_args.local_fields,
        config_name=model_args.config_name,
        config_fields=config_fields,
        tokenizer_name=model_args.tokenizer_name,
        hub=model_args.hub,
        trust_remote_code=model_args.trust_remote_code,
        ignore_mismatched_sizes=model_args.ignore_mismatched_sizes,
    )


def _load_backbone(task: str, model_args: ModelArguments, config_fields: dict[str, Any]) -> Loaded:
    """Load a backbone with new layers of a family."""
    family = get_family(str(model_args.family))
    fields, settings = family.split_fields(model_args.local_fields)
    if task not in family.heads:
        raise ValueError(
            f"The family {family.name!r} has no model for {task}; it has models for {', '.join(family.heads)}."
        )
    backbone = resolve_backbone(model_args.source, generates=task == "text2text-generation")
    tokenizer = load_tokenizer(
        model_args.tokenizer_name or backbone,
        trust_remote_code=model_args.trust_remote_code,
        **model_args.hub,
    )
    with loading("backbone", backbone):
        model = family.heads[task].from_backbone(
            backbone, dtype=torch.float32, **model_args.hub, **fields, **config_fields
        )
    return model, family.adapt_tokenizer(tokenizer, model, **settings)


def head_of(model_args: ModelArguments, task: str, *, is_trained: bool) -> Head:
    """Return the head for a task that a run starts from: that of a checkpoint, or a new one.

    Args:
        model_args: The model.
        task: A key of `hf_localattn.families.AUTO_CLASSES`.
        is_trained: The run trains the model.
    """
    head = Head(model_args.source, is_trained=is_trained, may_change=model_args.ignore_mismatched_sizes)
    if model_args.family not in (None, NO_FAMILY):
        return head
    name = model_args.config_name or resolve_backbone(model_args.source)
    with loading("config", name):
        config = load_config(name, hub=model_args.hub, trust_remote_code=model_args.trust_remote_code)
    if task not in map(task_of_class, config.architectures or ()):
        return head
    return replace(head, labels=checkpoint_labels(config))
