"""A Hub of this machine for the test's own process: endpoint, cache and token, and no waiting between attempts."""

import time
import types

import huggingface_hub
import pytest
import transformers.utils.hub
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

from tests.hub.loopback import Hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A running `Hub` that this process takes for the Hub, as the user "somebody"."""
    with Hub().serve() as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.endpoint)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", served.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", served.endpoint)
        monkeypatch.setattr(transformers.utils.hub, "_hf_api", None)
        impatient = types.SimpleNamespace(sleep=lambda seconds: None, time=time.time)
        monkeypatch.setattr(_http, "time", impatient)
        monkeypatch.setattr(file_download, "time", impatient)
        monkeypatch.setenv("HF_TOKEN", "hf_writer")
        yield served
    transformers.utils.hub._hf_api = None
