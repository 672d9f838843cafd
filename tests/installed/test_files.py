"""What stays of a checkpoint that is data, and what a program may choose; `tests/hostile` has what is refused."""

import pytest
import torch
from transformers import AutoModel

from hf_localattn import CoolConfig, CoolModel
from tests.models.tiny import tiny_model


@pytest.fixture
def checkpoint(tmp_path):
    tiny_model("cool").save_pretrained(tmp_path)
    return tmp_path


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
