"""The arguments of `from_backbone` that users of `from_pretrained` bring along, and the labels of a model."""

import json
import shutil

import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_localattn import CoolForConditionalGeneration, CoolForSequenceClassification, SamRobertaModel
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.script_helpers import ROOT

LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}


def weights(model):
    return model.backbone_model.state_dict()


def test_backbones_have_names_folders_and_subfolders(tmp_path):
    shutil.copytree(tiny_backbone(), tmp_path / "encoders" / "small")
    expected = weights(SamRobertaModel.from_backbone(tiny_backbone()))
    for model in (
        SamRobertaModel.from_backbone("tiny"),
        SamRobertaModel.from_backbone(tmp_path, subfolder="encoders/small"),
    ):
        assert all(torch.equal(one, weights(model)[key]) for key, one in expected.items())
    model = CoolForConditionalGeneration.from_backbone("tiny-bart", conv_filters=4)
    assert model.config.backbone_config.model_type == "bart"
    assert model.config.backbone_config._name_or_path == ""


def test_the_code_of_a_backbone_is_not_run_even_if_it_is_trusted(tmp_path, monkeypatch, caplog):
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
        with pytest.raises(ValueError, match=r"The code of a backbone is never run: choose a backbone whose arch"):
            SamRobertaModel.from_backbone(folder, trust_remote_code=trusted)


def test_a_checkpoint_with_names_alone_serves_zero_shot_classification(tmp_path):
    model = CoolForSequenceClassification.from_backbone("tiny", id2label=LABELS)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["label2id"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    classifier = pipeline("zero-shot-classification", model=str(tmp_path))
    assert classifier.entailment_id == 2
    answer = classifier("The baker Mira grows white roses.", candidate_labels=["baking", "gardening"])
    assert {*answer["labels"]} == {"baking", "gardening"}
    assert sum(answer["scores"]) == pytest.approx(1)


QUIET = """
import sys
sys.path.insert(0, sys.argv[1])
from hf_localattn import CoolForQuestionAnswering, SamRobertaForSequenceClassification, SamRobertaModel

CoolForQuestionAnswering.from_backbone("tiny").save_pretrained("model")
SamRobertaModel.from_backbone("tiny").save_pretrained("headless")
print("saved", file=sys.stderr)
CoolForQuestionAnswering.from_backbone("tiny")
CoolForQuestionAnswering.from_pretrained("model")
print("next", file=sys.stderr)
SamRobertaForSequenceClassification.from_pretrained("headless")
"""


def test_loading_prints_nothing_but_that_a_head_is_new(tmp_path):
    done = run_fresh(QUIET, tmp_path, ROOT)
    assert done.returncode == 0, done.stderr
    written, whole = done.stderr.split("saved\n")
    assert "Loading weights" not in written
    loaded, report = whole.split("next\n")
    assert not loaded
    assert "classifier" in report
    assert "Loading weights" not in report
