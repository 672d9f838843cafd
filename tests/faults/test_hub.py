"""A Hub that fails in the middle of a download: a clear error or a correct retry, and no wrong file afterwards."""

import hashlib
import re
import shutil
import time

import pytest
from huggingface_hub import constants

from hf_localattn.cli import main
from hf_localattn.resources import tiny_backbone
from tests.hub.conftest import hub as hub  # the fixture
from tests.hub.loopback import Fault

NAME = "somebody/tiny-bert"
FILES = ("config.json", "tokenizer.json", "model.safetensors")
SILENT = {"stall": FILES[:1], "drip": FILES[-1:]}
"""Files whose download stalls or drips. The client waits for each of them five times."""

MESSAGES = {
    500: "Server error '500",
    "break": "couldn't find them in the cached files|Can't load|Server disconnected",
    "stall": "Can't load|timed out",
    "cut": "Can't load",
    "drip": "Can't load",
    "short": "Consistency check failed: file should be of size",
    "swap": r"the download of {file} does not have the digest that .*removed from the cache: try again",
}


@pytest.fixture
def init(hub, tmp_path, capfd, monkeypatch):
    """Run `hf-localattn init cool NAME` at a pinned revision; its code, error and files."""
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    repository = hub.add(NAME, tiny_backbone())

    def run():
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        try:
            code = main(["init", "cool", NAME, str(tmp_path / "out"), "--revision", repository.names["main"]])
        except SystemExit as ended:
            code = ended.code
        written = sorted(tmp_path.glob("out/*"))
        error = capfd.readouterr().err.rstrip("\n").rpartition("\n")[2]
        return code, error, {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in written}

    return run


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_fault_is_told_and_a_healthy_hub_serves_the_right_files_afterwards(hub, init, kind):
    _, _, expected = init()
    assert "model.safetensors" in expected
    for file in SILENT.get(kind, FILES):
        shutil.rmtree(constants.HF_HUB_CACHE)
        hub.faults = [Fault(f"GET .*/{file}", kind)]
        began = time.monotonic()
        code, error, written = init()
        assert (code, written) == (2, {}), file
        assert time.monotonic() - began < 30
        message = MESSAGES[kind].format(file=file)
        assert re.match(rf"error: Cannot load the \w+ '{NAME}': .*({message})", error), error
        hub.faults = []
        assert init()[2] == expected


@pytest.mark.parametrize("kind", ["break", "stall", "cut", "drip"])
def test_a_download_that_breaks_off_once_goes_on(hub, init, kind):
    hub.faults = [Fault("GET .*/model.safetensors", kind, times=1)]
    code, error, _ = init()
    assert code == 0, error
    assert sum("model.safetensors" in request for request in hub.requests if request.startswith("GET")) == 2


def test_a_hub_whose_lists_are_silent_is_not_waited_for(hub, init):
    """Its client asks some of them without a limit."""
    hub.faults = [Fault("api/models", "stall")]
    began = time.monotonic()
    code, error, _ = init()
    assert code == 2
    assert "timed out" in error
    assert time.monotonic() - began < 15
