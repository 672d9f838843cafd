"""Checkpoints run code and read files only as far as their loader allows."""

import json
import re

import pytest
import torch
from transformers import AutoConfig, AutoModel

from hf_localattn.training.output_folder import prepare_output_folder
from tests.models.tiny import tiny_model


def test_the_command_that_is_named_makes_a_checkpoint(tmp_path, monkeypatch):
    model = tiny_model("cool")
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"nothing else is read. A .bin file is a pickle") as refused:
        AutoModel.from_pretrained(tmp_path)
    (program,) = re.findall(r'python -c "(.*)"$', str(refused.value))
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    converted = AutoModel.from_pretrained(tmp_path)
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in converted.state_dict().items())


def test_training_is_not_resumed_from_a_pickle(tmp_path):
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()
    for name in ("pytorch_model.bin", "optimizer.pt", "trainer_state.json"):
        (checkpoint / name).write_text("{}")
    with pytest.raises(ValueError, match=r"weights in pytorch_model.bin. A .bin file is a pickle.*convert it"):
        prepare_output_folder(tmp_path, str(checkpoint))


def test_a_configuration_cannot_ask_for_its_code_to_be_run(tmp_path, monkeypatch):
    model = tiny_model("cool")
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    asking = json.loads(path.read_text()) | {"trust_remote_code": True, "model_type": "not-registered"}
    path.write_text(json.dumps(asking))
    (tmp_path / "configuration_cool.py").write_text("raise SystemExit('this code was run')\n")
    monkeypatch.setattr("builtins.input", lambda question: "n")
    for auto_class in (AutoConfig, AutoModel):
        with pytest.raises(ValueError, match="`trust_remote_code=True`"):
            auto_class.from_pretrained(tmp_path)
