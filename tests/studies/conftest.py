import pytest

from hf_localattn.studies import processes
from tests.fresh_process import bare_python


@pytest.fixture(autouse=True)
def forked_runs(monkeypatch):
    """Runs in processes that are forked: each would import torch and transformers for five seconds."""
    monkeypatch.setattr(processes, "PYTHON", bare_python("hf_localattn.studies.command"))
