"""Configurations from files may hold only data; those of programs may hold more."""

import json

import pytest
from transformers import AutoConfig, BertConfig

from hf_localattn import CoolConfig, CoolModel
from hf_localattn.models.config_checks import check_content
from hf_localattn.registry import FAMILIES
from tests.models.tiny import TINY_BACKBONES, tiny_config, tiny_model


@pytest.mark.parametrize("backbone", TINY_BACKBONES)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_saved_is_data(tmp_path, family, backbone):
    if backbone not in FAMILIES[family].config.tested_backbones:
        pytest.skip("not a tested backbone of the family")
    config = tiny_config(family, backbone, id2label={number: f"label {number}" for number in range(30)})
    config.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).to_dict() == config.to_dict() | {"_name_or_path": str(tmp_path)}


def test_a_program_may_choose_what_a_file_may_not(tmp_path):
    tiny_model("cool").save_pretrained(tmp_path)
    loaded = CoolModel.from_pretrained(tmp_path, attn_implementation="eager", dtype="bfloat16")
    assert loaded.config._attn_implementation == "eager"
    config = json.loads((tmp_path / "config.json").read_text()) | {"attn_implementation": "owner/kernel"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match="`attn_implementation` is 'owner/kernel'; a checkpoint can ask for eager, sdpa"
    ):
        CoolModel.from_pretrained(tmp_path)


def test_a_size_is_checked_before_the_backbone_makes_lists_of_it():
    """ModernBERT's configuration has a list with an entry for each layer."""
    with pytest.raises(
        ValueError, match=r"not valid for 'modernbert': `num_hidden_layers` is 10{12}; it must be from"
    ):
        CoolConfig(backbone_config={"model_type": "modernbert", "num_hidden_layers": 10**12})


def test_entries_of_other_versions_stay():
    check_content({"a_field_of_tomorrow": {"a": [1, 2.5, None, "x"]}, "use_cache": True})
    assert CoolConfig.from_dict({"a_field_of_tomorrow": 7 * 10**12}).a_field_of_tomorrow == 7 * 10**12


@pytest.mark.parametrize(("name", "field"), [("sam-roberta", "num_bilstm_layers"), ("cool", "num_hidden_layers")])
def test_a_program_may_not_choose_more_layers_than_a_file(name, field):
    with pytest.raises(ValueError, match=f"`{field}` .*10001; it must be .* 10,000"):
        tiny_config(name, **{field: 10_001})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"a": {"b": [{"quantization_config": {"a": 1}}]}},
            r"`a\.b\.0\.quantization_config` is {'a': 1}, which a checkpoint",
        ),
        ({"encoder_layers": 10_001}, "`encoder_layers` is 10001; it must be from -10000 to 10000"),
        ({"vocab_size": -(2**40)}, "`vocab_size` is -1099511627776"),
        ({"a": float("-inf")}, "`a` is -inf; it must be a finite number"),
    ],
)
def test_the_entry_is_named(content, message):
    with pytest.raises(ValueError, match=message):
        check_content(content, ("encoder_layers", "vocab_size"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"save_pretrained": 1}, "`save_pretrained` is not a field of BertConfig that can be set"),
    ],
)
def test_a_backbones_entry_is_named(content, message):
    with pytest.raises(ValueError, match=message):
        CoolConfig.from_dict({"backbone_config": {"model_type": "bert", **content}})


def test_labels_may_have_any_names(tmp_path):
    labels = {"__label__a": 0, "use_kernels": 1}
    config = CoolConfig(id2label={number: name for name, number in labels.items()}, label2id=labels)
    config.save_pretrained(tmp_path)
    assert CoolConfig.from_pretrained(tmp_path).label2id == labels


@pytest.mark.parametrize("labels", [{"1": "a", "2": "b"}, {}, {"7": "a"}])
def test_the_labels_of_a_backbone_mean_nothing(labels):
    backbone = {"model_type": "bert", "id2label": labels, "num_labels": 10**9}
    assert CoolConfig.from_dict({"backbone_config": backbone}).num_labels == 2


def test_what_asks_for_nothing_is_no_instruction():
    assert CoolConfig.from_dict({"use_kernels": False, "quantization_config": {}}).use_conv
    assert "distributed_config" not in CoolConfig(distributed_config={"tp_size": 2}).to_dict()


def test_code_of_the_backbones_own_has_no_say():
    backbone = BertConfig(auto_map={"AutoModel": "owner/name--code.Model"}, custom_pipelines={"a": {}})
    saved = CoolConfig(backbone_config=backbone).to_dict()["backbone_config"]
    assert "auto_map" not in saved
    assert "custom_pipelines" not in saved
    assert backbone.auto_map  # the caller's own stays as it is


@pytest.mark.parametrize("layers", [2**63, "all", [0, "last"], [0, 10**9], 1])
def test_hidden_states_are_asked_for_by_index(layers):
    with pytest.raises(ValueError, match=r"`output_hidden_states` is .*; it must be true, false or a list of indices"):
        CoolConfig(output_hidden_states=layers)


def test_some_layers_may_be_asked_for():
    assert CoolConfig(output_hidden_states=[0, -1]).output_hidden_states == [0, -1]


def test_names_of_python_are_no_fields():
    with pytest.raises(ValueError, match="`__x` is not a field of CoolConfig that can be set"):
        CoolConfig(**{"__x": 1})
