"""The arguments of `from_backbone`, the backbones that it refuses, and what loading prints."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_localattn import (
    CoolForConditionalGeneration,
    CoolForQuestionAnswering,
    SamRobertaForSequenceClassification,
    SamRobertaModel,
)
from hf_localattn.resources import tiny_backbone


def test_backbones_have_names_folders_and_subfolders(tmp_path):
    shutil.copytree(tiny_backbone(), tmp_path / "encoders" / "small")
    expected = SamRobertaModel.from_backbone(tiny_backbone()).backbone_model.state_dict()
    for place in ({"name_or_path": "tiny"}, {"name_or_path": tmp_path, "subfolder": "encoders/small"}):
        found = SamRobertaModel.from_backbone(**place).backbone_model.state_dict()
        assert all(torch.equal(one, found[key]) for key, one in expected.items())
    model = CoolForConditionalGeneration.from_backbone("tiny-bart", conv_filters=4)
    assert model.config.backbone_config.model_type == "bart"
    assert model.config.backbone_config._name_or_path == ""


REFUSED = {
    "an unknown field": ({"use_famm": True}, ValueError, "'use_famm'.*'use_fam'"),
    "a field of the backbone": ({"hidden_size": 64}, ValueError, "`hidden_size` belongs to the backbone"),
    "a property": ({"output_size": 3}, ValueError, "'output_size'"),
    "a field of all models": ({"is_encoder_decoder": True}, ValueError, "'is_encoder_decoder'"),
    "pickled": ({}, OSError, "no safetensors"),
    "incomplete": ({}, ValueError, "lacks weights"),
    "composite": ({}, ValueError, "composite"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_serve_is_refused(case, tmp_path):
    fields, kind, message = REFUSED[case]
    model = SamRobertaModel.from_backbone("tiny")
    (model if case == "composite" else model.backbone_model).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    if case == "pickled":
        file.unlink()
        torch.save(weights, tmp_path / "pytorch_model.bin")
        with pytest.raises(ValueError, match="from_backbone"):
            SamRobertaModel.from_pretrained(tmp_path)
    elif case == "incomplete":
        save_file(dict(list(weights.items())[:3]), file, metadata={"format": "pt"})
    with pytest.raises(kind, match=message):
        SamRobertaModel.from_backbone(tmp_path, **fields)


def test_the_code_of_a_backbone_is_not_run_even_if_it_is_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail("asked whether to run code"))
    folder = shutil.copytree(tiny_backbone(), tmp_path / "backbone")
    code = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "configuration_own.OwnModel"}
    config = json.loads((folder / "config.json").read_text()) | {"auto_map": code}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_own.py").write_text("raise SystemExit('this code was run')\n")
    model = SamRobertaModel.from_backbone(folder, trust_remote_code=True)
    assert type(model.backbone_model).__name__ == "BertModel"
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own"}))
    for trusted in (True, False):
        with pytest.raises(ValueError, match="never run"):
            SamRobertaModel.from_backbone(folder, trust_remote_code=trusted)


def test_loading_prints_nothing_but_that_a_head_is_new(tmp_path, capfd, caplog):
    CoolForQuestionAnswering.from_backbone("tiny").save_pretrained(tmp_path / "model")
    SamRobertaModel.from_backbone("tiny").save_pretrained(tmp_path / "headless")
    capfd.readouterr()  # saving has bars
    CoolForQuestionAnswering.from_backbone("tiny")
    CoolForQuestionAnswering.from_pretrained(tmp_path / "model")
    assert not caplog.text
    assert "Loading" not in capfd.readouterr().err
    SamRobertaForSequenceClassification.from_pretrained(tmp_path / "headless")
    assert "classifier" in caplog.text
