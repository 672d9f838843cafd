"""`init` takes a backbone from the Hub: the real client against a server on this machine."""

import json
import shutil
import subprocess
import sys

import pytest

from hf_localattn.pretrained import resolve_backbone
from tests.hub.loopback import serve


@pytest.fixture
def hub_root(tmp_path):
    shutil.copytree(resolve_backbone("tiny"), tmp_path / "hub" / "somebody" / "tiny-bert")
    return tmp_path / "hub"


def init(backbone, tmp_path, endpoint, **environment):
    """Run `hf-localattn init` with a cache of its own; the endpoint is read when huggingface_hub is imported."""
    return subprocess.run(
        [sys.executable, "-m", "hf_localattn.cli", "init", "cool", backbone, str(tmp_path / "out")],
        env={
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": "",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_backbone_from_the_hub_and_then_from_the_cache(hub_root, tmp_path):
    with serve(hub_root) as endpoint:
        first = init("somebody/tiny-bert", tmp_path, endpoint)
    assert first.returncode == 0, first.stderr
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["backbone_config"]["hidden_size"] == 64
    assert "somebody" not in json.dumps(config)
    shutil.rmtree(tmp_path / "out")
    offline = init("somebody/tiny-bert", tmp_path, endpoint, HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr


def test_a_private_backbone_needs_the_token(hub_root, tmp_path):
    with serve(hub_root, token="hf_secret") as endpoint:
        refused = init("somebody/tiny-bert", tmp_path, endpoint)
        assert refused.returncode == 2
        assert refused.stderr.splitlines()[-1].startswith("error: Cannot load the tokenizer 'somebody/tiny-bert'")
        allowed = init("somebody/tiny-bert", tmp_path, endpoint, HF_TOKEN="hf_secret")
    assert allowed.returncode == 0, allowed.stderr
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.json"))
    assert "hf_secret" not in written + allowed.stdout + allowed.stderr


def test_what_is_not_on_the_hub_is_named(hub_root, tmp_path):
    with serve(hub_root) as endpoint:
        result = init("somebody/nothing", tmp_path, endpoint)
    assert result.returncode == 2
    assert "'somebody/nothing'" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()
