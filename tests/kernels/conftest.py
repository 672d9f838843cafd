"""Kernels are asked for in all tests of this folder, and nothing is known of them at the beginning of each."""

import pytest

from hf_localattn.kernels import choice


@pytest.fixture(autouse=True)
def asked_for(monkeypatch):
    monkeypatch.setenv(choice.SWITCH, "1")
    monkeypatch.setattr(choice, "_DIFFERENCES", {})
