"""Tiny models of every family, task and backbone, and the ablations of every family; the contract holds for each."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from packaging.version import Version
from transformers import CONFIG_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

from hf_localattn.families import FAMILIES
from hf_localattn.models.fields import field_types, values_of
from hf_localattn.models.modeling_on_encoder import EncoderStates
from hf_localattn.models.task_heads import LocalMultipleChoiceOutput, MultipleChoiceHead

by_index = pytest.mark.skipif(
    Version(transformers.__version__) < Version("5.23"),
    reason="before transformers 5.23 indices count layers, not states, and cannot be negative",
)

VOCABULARY = 59
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 37}
COMMON = {**SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": 40}

TINY_BACKBONES = {
    "bert": COMMON,
    "roberta": {**COMMON, "pad_token_id": 1, "type_vocab_size": 1},
    "albert": {**COMMON, "embedding_size": 16},
    "electra": {**COMMON, "embedding_size": 16},
    "distilbert": {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 37,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 40,
    },
    "deberta-v2": {
        **COMMON,
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["p2c", "c2p"],
    },
    "modernbert": {
        **COMMON,
        "num_hidden_layers": 3,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
        "local_attention": 4,
    },
    "mpnet": COMMON,
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 37, "vocab_size": VOCABULARY},
}

TINY_FIELDS = {name: dict(family.facts.tiny_fields) for name, family in FAMILIES.items()}

# A field of each family, with a value that is not its default.
OTHER_FIELD = {name: next(iter(family.ablations[0].items())) for name, family in FAMILIES.items()}

# Generation has backbones and inputs of its own: tests/models/test_generation.py.
ENCODER_HEADS = {
    name: {task: head for task, head in family.heads.items() if not head.can_generate()}
    for name, family in FAMILIES.items()
}
CASES = [(name, task) for name, heads in ENCODER_HEADS.items() for task in ("headless", *heads)]

SHARED_HEAD = pytest.mark.slow(reason="the code of a head is the same in all families; two families show it")
OF_EVERY_FAMILY = ("headless", "text-classification", "token-classification")


def marks_of(name, task):
    """Return the marks of a head: `SHARED_HEAD` if COOL, or SLA with the backbone's own heads, shows the same."""
    return () if name in ("cool", "sla-bert") or task in OF_EVERY_FAMILY else SHARED_HEAD


MARKED_CASES = [pytest.param(*case, id="-".join(case), marks=marks_of(*case)) for case in CASES]

one_or_every_family = pytest.mark.parametrize(
    "names",
    [
        ["sla-bert"],
        pytest.param([*FAMILIES], marks=pytest.mark.slow(reason="the pipeline is the same in each family")),
    ],
    ids=["sla-bert", "every family"],
)
"""Families whose checkpoints a pipeline runs with and without the package. SLA has the most code of its own."""


def backbones_of(name, task):
    """Tested backbones of a family that have what a head needs, the default one first if it is among them."""
    config = FAMILIES[name].config
    backbones = sorted(config.tested_backbones, key=lambda backbone: backbone != config.default_backbone)
    return [one for one in backbones if task != "fill-mask" or CONFIG_MAPPING[one] in MODEL_FOR_MASKED_LM_MAPPING]


@cache
def _without_dropout(backbone):
    """Settings of a backbone without any dropout, which would make training runs incomparable."""
    defaults = CONFIG_MAPPING[backbone]().to_dict()
    return {name: 0.0 for name, value in defaults.items() if "dropout" in name and isinstance(value, float)}


def model_class_of(name, task):
    return FAMILIES[name].model if task == "headless" else FAMILIES[name].heads[task]


def tiny_config(name, backbone=None, **fields):
    family = FAMILIES[name]
    backbone = backbone or family.config.default_backbone
    backbone_config = {"model_type": backbone, **TINY_BACKBONES[backbone], **_without_dropout(backbone)}
    return family.config(**{"backbone_config": backbone_config, **TINY_FIELDS[name], **fields})


def tiny_model(name, task="headless", backbone=None, **fields):
    backbone = backbone or backbones_of(name, task)[0]
    # Copying takes a third of the time of building, and tests ask for most models two dozen times.
    model = _build(name, task, backbone, **fields) if fields else copy.deepcopy(_usual_model(name, task, backbone))
    torch.default_generator.manual_seed(0)  # so that a copy and a built model leave the same state of the generator
    return model


def _build(name, task, backbone, **fields):
    torch.default_generator.manual_seed(0)
    model = model_class_of(name, task)(tiny_config(name, backbone, **fields)).eval()
    # Biases start at zero and norms at one: move everything, so that nothing cancels.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


_usual_model = cache(_build)


def with_one_layer(model):
    """Keep one layer of the backbone and one on top: each takes seconds to trace, and the others are like it."""
    for name, module in model.named_modules():
        if name.endswith((".layer", ".layers")):
            del module[1:]
    return model


def token_ids(batch, length, seed=0):
    """Ids of ordinary tokens: above all special ones of the tiny backbones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(7, VOCABULARY, (batch, length), generator=generator)


PER_TOKEN = ("headless", "question-answering", "token-classification", "fill-mask")


TOKEN_INPUTS = {name: family.sample_inputs for name, family in FAMILIES.items()}
"""What families take of each token besides a transformer's usual inputs, from a mask of tokens."""


def adapted(model, **inputs):
    """Inputs (B, ...) as the model takes them: in multiple choice the rows are the choices of one example."""
    given = inputs.get("input_ids", inputs.get("inputs_embeds"))
    if model.token_inputs and given is not None:
        mask = inputs.get("attention_mask", torch.ones(given.shape[:2]))
        further = TOKEN_INPUTS[model.config.model_type]
        inputs = {**further(mask), **inputs} if mask.shape == given.shape[:2] else inputs
    if isinstance(model, MultipleChoiceHead):
        return {name: value[None] if torch.is_tensor(value) else value for name, value in inputs.items()}
    return inputs


def run(model, **inputs):
    return model(**adapted(model, **inputs))


def labels(task, batch, length):
    texts, tokens = torch.arange(batch), torch.arange(batch * length).view(batch, length)
    return {
        "question-answering": {"start_positions": texts % length, "end_positions": (texts + 1) % length},
        "text-classification": {"labels": texts % 2},
        "multiple-choice": {"labels": torch.tensor(batch - 1)},
        "token-classification": {"labels": tokens % 2},
        "fill-mask": {"labels": tokens % VOCABULARY},
    }[task]


def main_outputs(output):
    """The tensors that a task is about, each (B, L, ...) or (B, ...)."""
    if isinstance(output, LocalMultipleChoiceOutput):
        return [output.logits.T]
    names = ("last_hidden_state", "logits", "start_logits", "end_logits")
    return [output[name] for name in names if name in output]


def at_tokens(task, outputs, mask):
    """What the outputs say of real tokens; all of it where they speak of whole sequences."""
    return [output[mask.bool()] for output in outputs] if task in PER_TOKEN else outputs


def loss(model, task, run_by=None, **inputs):
    """The model's own loss; for a headless one any function of all its outputs."""
    states = inputs.get("input_ids", inputs.get("inputs_embeds"))
    answers = {} if task == "headless" else labels(task, *states.shape[:2])
    output = (model if run_by is None else run_by)(**adapted(model, **inputs, **answers))
    if answers:
        return output.loss
    every = [output[name] for name in ("last_hidden_state", "pooler_output") if name in output]
    return sum((one * torch.linspace(-1, 1, one.shape[-1], dtype=one.dtype)).mean() for one in every)


def enable_checkpointing(model, *settings):
    """By its new name where there is one: the old one warns."""
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)(*settings)


def gradients(model, task, **inputs):
    model.zero_grad(set_to_none=True)
    loss(model, task, **inputs).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.requires_grad}


# --- ablations and baselines, as fields of a configuration


def choices(config_class: Any, field: str) -> tuple[str, ...]:
    """Return the values of a field that is declared as `Literal`."""
    return values_of(field_types(config_class)[field])


STATES = {"a mix": {"encoder_states": "mix"}, "two layers": {"encoder_states": [1, -1]}}
"""States that the layers of all families on top of an encoder can read."""


def ablations_of(name: str) -> dict[str, dict[str, Any]]:
    """The ablations that a family's fields declare, and the rows of its facts, each once."""
    family = FAMILIES[name]
    more = {**family.facts.rows, **(STATES if issubclass(family.model, EncoderStates) else {})}
    declared = [fields for fields in family.ablations if fields not in more.values()]
    rows = {" ".join(f"{field}={value}" for field, value in fields.items()): fields for fields in declared} | more
    rows = {row: {**family.facts.row_fields, **fields} for row, fields in rows.items()}
    return {row: fields for row, fields in rows.items() if fields}
