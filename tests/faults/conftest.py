"""One warm process, and what undisturbed commands leave, for all tests of this folder."""

import pytest

from tests.faults.commands import Warm, case, log_of, outcome


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    with Warm(tmp_path_factory.mktemp("warm")) as process:
        yield process


@pytest.fixture(scope="session")
def undisturbed(warm, tmp_path_factory):
    """What each command leaves."""
    known = {}

    def run(name):
        if name not in known:
            folder = case(tmp_path_factory.mktemp(name) / "whole")
            assert warm.run(name, folder) == 0, log_of(folder)
            known[name] = outcome(folder)
        return known[name]

    return run
