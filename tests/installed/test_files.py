"""Without `trust_remote_code` a checkpoint is data: nothing that it names is imported, executed or unpickled."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModel

from hf_localattn import CoolConfig, CoolModel
from tests.models.tiny import tiny_model

REFUSED = {
    "a list": [],
    "kernel": {"_attn_implementation": "owner/kernel"},
    "backbone's kernel": {"backbone_config": {"model_type": "bert", "attn_implementation": "owner/kernel"}},
    "experts' kernel": {"experts_implementation": "owner/kernel"},
    "kernels": {"use_kernels": True},
    "kernels by name": {"kernel_config": {"a": "owner/kernel"}},
    "library": {"a": [{"quantization_config": {"quant_method": "other"}}]},
    "weights": {"transformers_weights": "../other.safetensors"},
    "classes": {"fusion_config": {"a": 1}},
    "Python's": {"__class__": "x"},
    "a method": {"to_dict": "x"},
    "names": {"attribute_map": {"hidden_size": "auto_map"}},
    "another class": {"_auto_class": "AutoModel"},
}


@pytest.fixture
def checkpoint(tmp_path):
    tiny_model("cool").save_pretrained(tmp_path)
    return tmp_path


def change(checkpoint, **entries):
    path = checkpoint / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED)
def test_a_configuration_is_data(content):
    with pytest.raises(ValueError, match=r"config.json|must not set|can ask for|not a field"):
        CoolConfig.from_dict(content)


@pytest.mark.parametrize("content", [{"a_field_of_tomorrow": {"a": [1, None, "x"]}}, {"use_kernels": False}])
def test_other_entries_stay(content):
    assert CoolConfig.from_dict(content).use_conv


def test_labels_have_any_name(tmp_path):
    labels = {"__label__a": 0, "use_kernels": 1}
    CoolConfig(id2label={0: "__label__a", 1: "use_kernels"}, label2id=labels).save_pretrained(tmp_path)
    assert CoolConfig.from_pretrained(tmp_path).label2id == labels


def test_the_code_of_a_backbone_has_no_say():
    named = {"auto_map": {"AutoModel": "owner/name--code.Model"}, "custom_pipelines": {"a": {}}}
    backbone = CoolConfig(backbone_config={"model_type": "bert", **named}).to_dict()["backbone_config"]
    assert not named.keys() & backbone.keys()


def test_a_program_may_choose_what_a_file_may_not(checkpoint):
    assert CoolModel.from_pretrained(checkpoint, attn_implementation="eager").config._attn_implementation == "eager"


def test_pipelines_of_a_file_are_dropped(tmp_path):
    tiny_model("cool", "question-answering").save_pretrained(tmp_path)
    assert "custom_pipelines" in (tmp_path / "config.json").read_text()
    assert not hasattr(AutoConfig.from_pretrained(tmp_path), "custom_pipelines")


def test_the_command_in_the_error_converts_a_pickle(tmp_path, monkeypatch):
    model = tiny_model("cool")
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="file is a pickle") as refused:
        AutoModel.from_pretrained(tmp_path)
    monkeypatch.chdir(tmp_path)
    program = str(refused.value).split('python -c "')[1].rpartition('"')[0]
    exec(program, {})
    converted = AutoModel.from_pretrained(tmp_path)
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in converted.state_dict().items())


@pytest.mark.parametrize("choice", [False, None])
def test_weights_are_not_unpickled(checkpoint, choice):
    with pytest.raises(ValueError, match="unpickle"):
        CoolModel.from_pretrained(checkpoint, use_safetensors=choice)


def test_an_adapter_could_name_any_model(checkpoint):
    (checkpoint / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "owner/other"}))
    with pytest.raises(ValueError, match="an adapter_config"):
        AutoModel.from_pretrained(checkpoint)


def test_trust_is_not_asked_for_by_a_file(checkpoint, monkeypatch):
    change(checkpoint, trust_remote_code=True, model_type="not-registered")
    (checkpoint / "configuration_cool.py").write_text("raise SystemExit('this code was run')\n")
    monkeypatch.setattr("builtins.input", lambda question: "n")
    for auto_class in (AutoConfig, AutoModel):
        with pytest.raises(ValueError, match="`trust_remote_code=True`"):
            auto_class.from_pretrained(checkpoint)
