"""Checkpoints and settings of version 0.1.0, in which some fields and weights had other names."""

import json
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging

from hf_localattn.models import CoolConfig, CoolModel, OaXLNetConfig, SamRobertaConfig
from hf_localattn.registry import FAMILIES
from tests.models.tiny import main_outputs, run, tiny_config, tiny_model, token_ids

CHECKPOINTS = Path(__file__).with_name("checkpoints_of_0.1.0.tar.xz")
"""A checkpoint of each family with its code, saved by version 0.1.0; `expected.json` has inputs and outputs."""

FORMER = [
    ("cool", {"local_encoder": "gat"}, {"local_attention": "gat"}),
    ("cool", {"qa_loss": "eq16"}, {"qa_loss": "joint"}),
    ("oa-xlnet", {"variant": "em"}, {"local_attention": "em"}),
    ("oa-xlnet", {"dot_attention": "torchnlp"}, {"query_summary": "tanh"}),
    ("sam-roberta", {"head": "rba", "order": "tam_fam"}, {"pooling": "rba", "attention_order": "tam_fam"}),
]

FORMER_WEIGHTS = {".attention_scores.": ".score.", "_classifier.head.": "_classifier.classifier."}
RENAMED = [
    ("cool", "text-classification", None, {}),
    ("cool", "headless", None, {"local_attention": "visual_outlook"}),
    ("sam-roberta", "question-answering", None, {"pooling": "rba"}),
    *(
        ("sla-bert", task, kind, {})
        for task in ("text-classification", "multiple-choice")
        for kind in ("bert", "electra")
    ),
    ("sla-bert", "text-classification", "roberta", {}),
]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    with tarfile.open(CHECKPOINTS) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_a_checkpoint_of_0_1_0_answers_as_it_did(name, checkpoints, tmp_path):
    folder = checkpoints / name
    content = json.loads((folder / "config.json").read_text())
    (head,) = [head for head in FAMILIES[name].heads.values() if head.__name__ in content["architectures"]]
    model = head.from_pretrained(folder)
    assert isinstance(AutoTokenizer.from_pretrained(folder), FAMILIES[name].tokenizer or object)
    expected = json.loads((folder / "expected.json").read_text())
    output = model(**{field: torch.tensor(values) for field, values in expected["inputs"].items()})
    for field, values in expected["outputs"].items():
        torch.testing.assert_close(output[field], torch.tensor(values), rtol=1e-5, atol=1e-6)

    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert not saved.keys() & model.config.attribute_map.keys()
    again = AutoConfig.from_pretrained(tmp_path).to_diff_dict()
    known = {"custom_pipelines": None, **model.config.to_diff_dict()}  # written for others, not read here
    assert {**again, "custom_pipelines": None} == {**known, "custom_pipelines": None}


@pytest.mark.parametrize(("name", "former", "fields"), FORMER)
def test_former_names_are_read(name, former, fields, caplog):
    logging.warning_once.cache_clear()
    config = tiny_config(name, **former)
    assert config.to_dict() == tiny_config(name, **fields).to_dict()
    assert type(config).from_dict(config.to_dict(), **former).to_dict() == config.to_dict()  # overrides
    for field, new in config.attribute_map.items():
        assert getattr(config, field) == getattr(config, new)
        if field in former:
            assert f"`{field}` is called `{new}` now" in caplog.text


def test_former_names_are_read_where_fields_are_checked(tmp_path):
    tiny_backbone = tiny_config("cool").backbone_config
    CoolModel(CoolConfig(backbone_config=tiny_backbone)).backbone.save_pretrained(tmp_path)
    assert CoolModel.from_backbone(tmp_path, local_encoder="none").config.local_attention == "none"
    assert FAMILIES["oa-xlnet"].split_fields({"variant": "c"}) == ({"local_attention": "c"}, {})


def test_both_names_of_a_field_are_an_error():
    with pytest.raises(ValueError, match="`variant` is the former name of `local_attention`: give one of them"):
        FAMILIES["oa-xlnet"].split_fields({"variant": "c", "local_attention": "em"})


def test_gl_is_the_mode_without_quotes():
    assert tiny_config("cool", mode="gl").mode == "g&l"


def test_former_fields_are_no_fields_of_today():
    for config in (CoolConfig, OaXLNetConfig, SamRobertaConfig):
        for former, field in config.attribute_map.items():
            assert field in config.__dataclass_fields__
            assert former not in config.__dataclass_fields__


def former_weights(weights):
    for current, former in FORMER_WEIGHTS.items():
        weights = {name.replace(current, former): value for name, value in weights.items()}
    return weights


@pytest.mark.parametrize(("name", "task", "backbone", "fields"), RENAMED)
def test_former_names_of_weights_are_read_and_not_written(name, task, backbone, fields, tmp_path):
    model = tiny_model(name, task, backbone, **fields)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    former = former_weights(weights)
    assert former.keys() != weights.keys()
    save_file(former, tmp_path / "model.safetensors", {"format": "pt"})
    loaded, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for one, other in zip(
        *(main_outputs(run(each, input_ids=token_ids(2, 7))) for each in (loaded, model)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    loaded.save_pretrained(tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == weights.keys()

    fresh = type(model)(model.config)
    state = former_weights(model.state_dict())
    names = list(state)
    fresh.load_state_dict(state)
    assert list(state) == names
    assert all(torch.equal(value, fresh.state_dict()[key]) for key, value in model.state_dict().items())


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_an_adapter_with_former_names_of_weights_is_read(tmp_path):
    peft = pytest.importorskip("peft")
    base = tiny_model("cool", "text-classification")
    adapter = peft.LoraConfig(target_modules=["attention.self.query"], modules_to_save=["local_encoder"])
    peft.get_peft_model(base, adapter).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "adapter_model.safetensors")
    assert former_weights(weights).keys() != weights.keys()
    save_file(former_weights(weights), tmp_path / "adapter_model.safetensors")
    other = tiny_model("cool", "text-classification")
    with torch.no_grad():
        for parameter in other.cool.local_encoder.parameters():
            parameter.zero_()
    loaded = peft.PeftModel.from_pretrained(other, tmp_path)
    ids = token_ids(2, 7)
    torch.testing.assert_close(loaded(input_ids=ids).logits, base(input_ids=ids).logits, rtol=0, atol=0)
