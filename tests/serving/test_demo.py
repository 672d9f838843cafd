"""`hf-localattn demo` from the command line: what is refused before a page opens."""

import socket

import pytest
from transformers import AutoConfig

from hf_localattn import CoolForTokenClassification, CoolModel
from hf_localattn.cli import main, model_commands
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving import demo
from tests.serving.models import loaded


@pytest.fixture
def folder(tmp_path):
    for one in loaded("cool", "token-classification"):
        one.save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_that_is_none_and_a_port_that_is_none(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "require", lambda *_: None)
    for words, reason in (([], "is not a folder with a `config.json`"), (["--port", "70000"], "--port")):
        with pytest.raises(SystemExit):
            main(["demo", str(tmp_path), *words])
        assert reason in capsys.readouterr().err


def test_an_address_that_cannot_be_used_is_refused(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            demo.run(str(folder), port=port)
    with pytest.raises(OSError, match=r"192\.0\.2\.1"):
        demo.run(str(folder), host="192.0.2.1")


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["O", "SCOPE", "negation:single"], "negation"),
        (["O", "SCOPE"], "token-classification"),  # such a model finds no cues
        (["O", "B-PER"], "token-classification"),
    ],
)
def test_labels_of_cues_make_a_negation_widget(labels, task):
    config = AutoConfig.from_pretrained(tiny_backbone(), id2label=dict(enumerate(labels)))
    assert demo.widget_task("x", config, CoolForTokenClassification.__name__) == task
    with pytest.raises(ValueError, match="CoolModel, whose head has no widget"):
        demo.widget_task("x", config, CoolModel.__name__)
