"""Configurations of all families, from fields, files and the command line: as they are asked for, or refused."""

import dataclasses
import json

import hypothesis.strategies as st
import torch
from transformers import BertConfig

from hf_localattn.assignments import parse_config_fields
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig, choices
from hf_localattn.models.configuration_oa_xlnet import OaXLNetConfig
from hf_localattn.models.sam_attention import ATTENTION_ORDERS, TOKEN_FFNS
from hf_localattn.registry import FAMILIES
from tests.fuzz.properties import check, outcome, sizes
from tests.fuzz.values import TEXTS, anything, json_values, often, or_wrong
from tests.models.tiny import TINY_BACKBONES, TINY_FIELDS

CHOICES = {
    "mode": ("g2l", "l2g", "g&l"),
    "fusion": ("concat", "sum", "gate"),
    "conv_pooling": ("max", "avg"),
    "conv_alignment": ("adaptive", "same"),
    "outlook_softmax": ("feature", "window"),
    "qa_loss": ("mean", "sum", "joint"),
    "kv_sharing": choices(OaXLNetConfig, "kv_sharing"),
    "query_summary": choices(OaXLNetConfig, "query_summary"),
    "pooling": ("sam", "none", "rb", "rba", "disan"),
    "bilstm_merge": ("concat", "sum"),
    "tam_ffn": TOKEN_FFNS,
    "attention_order": ATTENTION_ORDERS,
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
}
KINDS = {
    "cool": choices(FAMILIES["cool"].config, "local_attention"),
    "sla-bert": ("syntax", "window", "none", "sgnet", "lisa"),
    "oa-xlnet": choices(OaXLNetConfig, "local_attention"),
}
"""Values of `local_attention` by family."""

COMMON = {
    "num_labels": st.integers(1, 5),
    "attn_implementation": st.sampled_from(["eager", "sdpa", "flex_attention", "x"]),
    "id2label": st.sampled_from([{0: "a", 1: "b"}, {"0": "a"}, {}, {1: "a", 0: "b"}, {5: "x"}]),
    "label2id": st.just({"a": 0, "b": 1}),
    "problem_type": st.sampled_from(CHOICES["problem_type"]),
    "dtype": st.sampled_from(["float32", "float16", "nn", "foo"]),
    "torch_dtype": st.sampled_from(["float32", "Tensor"]),
    "architectures": st.just(["CoolModel"]),
    "output_attentions": st.booleans(),
    "output_hidden_states": st.booleans(),
    "is_encoder_decoder": st.booleans(),
    "auto_map": st.just({"AutoConfig": "x.Y"}),
    "name_or_path": st.just("somewhere"),
    "hidden_size": st.just(32),
    "vocab_size": st.just(59),
    "transformers_version": st.just("5.0"),
    "tokenizer_class": st.just("SlaBertTokenizer"),
}
"""Fields that all configurations have, and names that are taken by something else."""

TAKEN = (
    "num_active_local_layers",
    "block_heads",
    "check",
    "to_dict",
    "active_fields",
    "per_layer_config",
    "attribute_map",
    "__class__",
)
"""Names of what a configuration has besides its fields."""

BY_TYPE = {"bool": st.booleans(), "int": st.integers(0, 8), "float": st.floats(0, 1), "None": st.none()}


def own_fields(name):
    """A strategy of right values for each of a family's own fields."""
    shared = {field.name for field in dataclasses.fields(LocalAttentionConfig)} - {"initializer_range"}
    found = {}
    for field in dataclasses.fields(FAMILIES[name].config):
        if field.name == "local_attention":
            found[field.name] = st.sampled_from(KINDS[name])
        elif field.name in CHOICES:
            found[field.name] = st.sampled_from(CHOICES[field.name])
        elif "[" in str(field.type):
            found[field.name] = st.lists(st.integers(0, 6), max_size=4)
        elif field.name not in shared:
            found[field.name] = st.one_of(*(BY_TYPE[kind] for kind in str(field.type).split(" | ")))
    return {field: strategy for field, strategy in found.items() if field not in shared}


SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "d_model",
    "n_head",
    "dim",
    "n_layers",
)


def backbone_configs(wrong):
    """Backbones as dicts, some with wrong fields, and what is none."""
    fields = st.dictionaries(
        st.sampled_from([*SIZES, "model_type", "is_decoder", "pad_token_id", "num_labels", "id2label", "dtype", "x"]),
        or_wrong(st.integers(0, 64), json_values),
        max_size=3,
    )
    tiny = st.sampled_from(sorted(TINY_BACKBONES)).map(lambda kind: {"model_type": kind, **TINY_BACKBONES[kind]})
    some = st.sampled_from(["gpt2", "bart", "vit", "t5", "cool", "clip", "x"]).map(lambda kind: {"model_type": kind})
    changed = st.tuples(tiny, fields).map(lambda both: {**both[0], **both[1]})
    return often(tiny, tiny, tiny, changed, changed, fields, some, st.none(), wrong)


def settings_of(name, wrong):
    """Fields of a configuration, few at a time, so that right ones meet often enough."""
    right = {**own_fields(name), **COMMON}
    values = {
        field: or_wrong(strategy, json_values if field in COMMON else wrong) for field, strategy in right.items()
    }
    few = st.lists(st.sampled_from(sorted(values)), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({field: values[field] for field in chosen})
    )
    extra = st.dictionaries(st.text("abc_ .", max_size=5) | st.sampled_from(TAKEN), json_values, max_size=1)
    other = often(st.just({}), st.just({}), st.just({}), extra)
    return st.tuples(few, other, backbone_configs(wrong)).map(
        lambda parts: {**TINY_FIELDS[name], **parts[1], **parts[0], "backbone_config": parts[2]}
    )


def names_of(fields):
    """What an error of these fields may name: one of them, of all models, or of the backbone."""
    backbone = fields["backbone_config"] if isinstance(fields.get("backbone_config"), dict) else {}
    names = {*fields, *backbone, *own_names(), "backbone_config", *SIZES}
    return [*(f"`{name}{end}" for name in names for end in "`."), "`problem_type=", "backbone"]


def own_names():
    return {field.name for family in FAMILIES.values() for field in dataclasses.fields(family.config)}


def is_small(config):
    """Whether the model is quick to build, also without memory for weights."""
    numbers = [value for value in vars(config).values() if type(value) is int]
    numbers += [value for value in vars(config.backbone_config).values() if type(value) is int]
    return max(numbers) <= 600 and config.num_labels <= 64


def check_accepted(name, config):
    """An accepted configuration is saved and read again, and there is a model for it, or a reason why not."""
    family = FAMILIES[name]
    text = config.to_json_string(use_diff=False)
    assert family.config.from_dict(json.loads(text)).to_json_string(use_diff=False) == text
    if is_small(config) and not config.is_encoder_decoder:
        with torch.device("meta"):
            outcome(lambda: family.heads["token-classification"](config), "`", "backbone", "attention", "config.")


@sizes
def test_from_fields(examples):
    def holds(given):
        name, fields = given
        config = outcome(lambda: FAMILIES[name].config(**fields), *names_of(fields))
        if config is not None:
            check_accepted(name, config)

    families = st.sampled_from(sorted(FAMILIES))
    check(holds, families.flatmap(lambda name: st.tuples(st.just(name), settings_of(name, anything))), examples)


@sizes
def test_from_files(examples):
    def holds(given):
        name, fields, type_of_file = given
        content = json.loads(json.dumps({**fields, **type_of_file}))
        config = outcome(lambda: FAMILIES[name].config.from_dict(content), *names_of(content), "checkpoint")
        if config is not None:
            check_accepted(name, config)

    types = st.sampled_from([{}, {}, {"model_type": "cool"}, {"model_type": []}, {"model_type": None}])
    files = st.sampled_from(sorted(FAMILIES)).flatmap(
        lambda name: st.tuples(st.just(name), settings_of(name, json_values), types)
    )
    check(holds, files, examples)


@sizes
def test_a_configuration_as_backbone_object(examples):
    def holds(given):
        name, field, value = given
        backbone = BertConfig(**TINY_BACKBONES["bert"])
        vars(backbone)[field] = value  # without the checks of transformers, as its older versions let it pass
        fields = {"backbone_config": backbone, **TINY_FIELDS[name]}
        outcome(lambda: FAMILIES[name].config(**fields), f"`{field}`", "`backbone_config", "backbone")

    names = st.sampled_from(sorted(FAMILIES))
    check(holds, st.tuples(names, st.sampled_from(["is_decoder", *SIZES[:4]]), anything), examples)


@sizes
def test_assignments_of_the_command_line(examples):
    def holds(given):
        name, assignments = given
        fields = outcome(
            lambda: parse_config_fields(name, assignments), "field=value", "no field", "`", *map(repr, assignments)
        )
        if fields is not None:
            assert len(fields) <= len(assignments)
            own, settings = FAMILIES[name].split_fields(fields)
            own = {**own, "backbone_config": {"model_type": "bert", **TINY_BACKBONES["bert"]}}
            if settings.keys() <= {"words"}:
                config = outcome(lambda: FAMILIES[name].config(**own), *names_of(own))
                if config is not None:
                    check_accepted(name, config)

    values = st.one_of(
        st.sampled_from(
            [*TEXTS, "2", "[3, 4]", "1e-1", "2024-13-45", "2024-01-02", "0b_", "0x_", "[" * 3000, "&a [*a]"]
        ),
        st.sampled_from([*(choice for choices in CHOICES.values() for choice in choices)]),
        st.sampled_from(
            ["{a: 1}", "{[1]: 2}", "!!python/object:os.system x", "!!int x", "!!binary x", "*a", "12:60:70"]
        ),
        st.text("0123456789.:-_eExb[]{}!&*<>=, \t'\"#~", max_size=12),
        st.text(max_size=8),
    )

    def of_family(name):
        names = st.sampled_from(sorted([*own_fields(name), *COMMON])) | st.text(max_size=5)
        equals = st.sampled_from(["=", "=", "=", "", " = "])
        one = st.tuples(names, equals, values).map("".join)
        return st.tuples(st.just(name), st.lists(one, min_size=1, max_size=3))

    check(holds, st.sampled_from(sorted(FAMILIES)).flatmap(of_family), examples)
