"""`init` takes a backbone from the Hub: the real client against a server on this machine."""

import json
import shutil

import pytest
from huggingface_hub import constants

from hf_localattn.cli import main
from hf_localattn.resources import tiny_backbone
from tests.hub.loopback import Fault

NAME = "somebody/tiny-bert"


@pytest.fixture
def init(hub, tmp_path, capsys):
    """Runs `hf-localattn init cool BACKBONE OUT`; returns the exit code and the last line of an error."""

    def run(backbone=NAME, *options):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        try:
            code = main(["init", "cool", backbone, str(tmp_path / "out"), *options])
        except SystemExit as ended:
            code = ended.code
        return code, capsys.readouterr().err.rstrip("\n").rsplit("\n", 1)[-1]

    return run


def config(tmp_path):
    return json.loads((tmp_path / "out" / "config.json").read_text())


def test_a_backbone_from_the_hub_and_then_from_the_cache(hub, init, tmp_path, monkeypatch):
    hub.add(NAME, tiny_backbone())
    assert init()[0] == 0
    assert config(tmp_path)["backbone_config"]["hidden_size"] == 64
    assert config(tmp_path)["backbone_config"]["_name_or_path"] == NAME
    asked = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert init()[0] == 0
    assert len(hub.requests) == asked


def test_a_revision_is_the_one_that_is_asked_for(hub, init, tmp_path):
    repository = hub.add(NAME, tiny_backbone())
    pinned, files = repository.names["main"], dict(repository.commits[repository.names["main"]])
    later = json.loads(files["config.json"]) | {"hidden_dropout_prob": 0.25}
    repository.commit("main", files | {"config.json": json.dumps(later).encode()}, "more dropout")
    assert init(NAME, "--revision", pinned)[0] == 0
    assert config(tmp_path)["backbone_config"]["hidden_dropout_prob"] == 0.0
    assert init()[0] == 0
    assert config(tmp_path)["backbone_config"]["hidden_dropout_prob"] == 0.25


def test_a_private_backbone_needs_the_token(hub, init, tmp_path, monkeypatch, caplog):
    hub.add(NAME, tiny_backbone(), private=True)
    for stranger in ("", "hf_unknown", "hf_reader"):
        monkeypatch.setenv("HF_TOKEN", stranger)
        code, error = init()
        assert code == 2
        assert error.startswith(f"error: Cannot load the tokenizer '{NAME}'")
        assert "run `hf auth login`" in error
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    assert init()[0] == 0
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.json"))
    assert "hf_writer" not in written + caplog.text


@pytest.mark.parametrize("trouble", [401, 403, 404, 500, "break"])
def test_a_hub_in_trouble_is_told_and_works_again_afterwards(hub, init, tmp_path, trouble):
    hub.add(NAME, tiny_backbone())
    hub.faults = [Fault("GET|HEAD", trouble)]
    code, error = init()
    assert code == 2
    assert error.startswith("error: ")
    assert f"'{NAME}'" in error
    assert not (tmp_path / "out").exists()
    hub.faults = []
    assert init()[0] == 0


def test_a_download_that_breaks_off_leaves_nothing_and_a_repeat_succeeds(hub, init, tmp_path):
    hub.add(NAME, tiny_backbone())
    hub.faults = [Fault("GET .*model.safetensors", "break")]
    code, error = init()
    assert code == 2
    assert f"'{NAME}'" in error
    assert not (tmp_path / "out").exists()
    hub.faults = []
    assert init()[0] == 0


def test_what_is_not_on_the_hub_is_named(hub, init, tmp_path):
    code, error = init("somebody/nothing")
    assert code == 2
    assert "'somebody/nothing'" in error
    assert not (tmp_path / "out").exists()
