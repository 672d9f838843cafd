"""The size of weight files limits models that are loaded from them, and no other models."""

import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

from hf_localattn import CoolConfig, CoolForSequenceClassification, CoolModel
from hf_localattn.models.config_checks import MOST
from hf_localattn.models.weight_checks import read_header
from tests.models.tiny import tiny_config, tiny_model

MANY = 20_000
"""Vocabulary size: the embeddings are far larger than the weight files of a tiny model."""


@pytest.fixture
def checkpoint(tmp_path):
    tiny_model("cool").save_pretrained(tmp_path)
    return tmp_path


def fields_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_a_header_is_read_as_the_library_does(tmp_path):
    tensors = {"a": torch.zeros(2, 3), "b": torch.zeros(()), "c": torch.zeros(0, 5, dtype=torch.bfloat16)}
    tensors |= {"d": torch.zeros(7, dtype=torch.float8_e4m3fn), "e": torch.ones(3, dtype=torch.bool)}
    save_file(tensors, tmp_path / "x.safetensors", {"format": "pt"})
    assert read_header(tmp_path / "x.safetensors") == {name: list(one.shape) for name, one in tensors.items()}


@pytest.mark.parametrize("position", [0, 7, 8, 20, -1])
def test_a_file_that_is_cut_or_grown_is_none(checkpoint, position):
    path = checkpoint / "model.safetensors"
    whole = path.read_bytes()
    for changed in (whole[:position], whole + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"model.safetensors is not a whole safetensors file"):
            AutoModel.from_pretrained(checkpoint)


def test_new_heads_of_any_usual_size_are_built(checkpoint):
    model = AutoModelForTokenClassification.from_pretrained(checkpoint, num_labels=5000)
    assert model.num_labels == 5000


def test_a_caller_hears_why_a_part_cannot_be_new(checkpoint):
    with pytest.raises(ValueError, match="to build new layers of this size, use `from_config`"):
        AutoModelForSequenceClassification.from_pretrained(checkpoint, vocab_size=MOST)


def test_other_sizes_are_ignored_if_the_caller_says_so(checkpoint):
    CoolForSequenceClassification(tiny_config("cool", num_labels=3)).save_pretrained(checkpoint)
    model = CoolForSequenceClassification.from_pretrained(checkpoint, num_labels=7, ignore_mismatched_sizes=True)
    assert model.num_labels == 7
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):  # as in transformers
        CoolForSequenceClassification.from_pretrained(checkpoint, num_labels=7)


def test_resized_embeddings_come_back(checkpoint):
    model = CoolModel.from_pretrained(checkpoint)
    model.resize_token_embeddings(MANY)
    model.save_pretrained(checkpoint)
    assert CoolModel.from_pretrained(checkpoint).config.vocab_size == MANY


def test_weights_in_several_files_come_back(checkpoint):
    model = CoolModel.from_pretrained(checkpoint)
    model.save_pretrained(checkpoint, max_shard_size="20KB")
    assert len(list(checkpoint.glob("*.safetensors"))) > 2
    loaded = CoolModel.from_pretrained(checkpoint).state_dict()
    assert all(torch.equal(one, loaded[name]) for name, one in model.state_dict().items())


def test_a_configuration_alone_may_be_larger_than_any_weights(checkpoint):
    backbone = {**fields_of(checkpoint)["backbone_config"], "vocab_size": MOST}
    with torch.device("meta"):
        model = AutoModel.from_config(CoolConfig(backbone_config=backbone, conv_filters=5))
    assert model.get_input_embeddings().num_embeddings == MOST


def test_nothing_is_counted_once_a_model_is_loaded(checkpoint):
    CoolModel.from_pretrained(checkpoint)
    with torch.device("meta"):
        torch.nn.Linear(10**5, 10**5)
