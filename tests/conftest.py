"""What every test runs under: no network, no shared state, repeatable numbers."""

import atexit
import gc
import logging
import os
import re
import shutil
import tempfile
import tomllib
import warnings
from argparse import Namespace
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
from hypothesis import settings

from tests.fresh_process import SERVERS

PYPROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
# Programs that tests start: what is an error here is one there.
os.environ["PYTHONWARNINGS"] = ",".join(PYPROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"])

gc.disable()  # until the tests are collected: nothing of them is garbage
re._MAXCACHE = 10_000  # transformers makes more patterns whenever it loads a model than `re` keeps

# A busy machine is no reason to fail, and a failure is there for everybody, and again tomorrow.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def _leave_out_of_collections():
    """Keep what is alive (imports, graphs, checkpoints' code) out of the collections of garbage that Trainer makes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)  # frozen objects do not count: each collection would be a full one


def pytest_configure(config):
    os.environ["SLOW_TESTS"] = "" if "not slow" in config.option.markexpr else "run"
    if SERVERS not in os.environ:  # by the first process, and not by its workers
        os.environ[SERVERS] = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, os.environ[SERVERS])  # after those that use it have ended


def pytest_collection_finish():
    _leave_out_of_collections()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _modules_leave_no_work_behind():
    yield
    _leave_out_of_collections()


class LoggedDeprecations(logging.Handler):
    """Turns the deprecations that transformers only logs into warnings, and so into errors."""

    def emit(self, record):
        if "deprecated" in record.getMessage():
            warnings.warn(record.getMessage(), FutureWarning, stacklevel=2)


LOGGED_DEPRECATIONS = LoggedDeprecations(logging.WARNING)


@pytest.fixture(autouse=True)
def _repeatable():
    # Not at the top: the process that only hands out the tests would wait for it, and all others for that process.
    import torch
    import transformers

    torch.default_generator.manual_seed(0)  # `torch.manual_seed` also formats the stack for each absent device
    transformers.logging.set_verbosity_warning()  # programs that ran before may have silenced it
    logging.getLogger("transformers").addHandler(LOGGED_DEPRECATIONS)


@pytest.fixture(autouse=True, scope="session")
def _runs_without_processes():
    """Execute folds, trials and rows of tables here, those of fixtures too: a process would take a second more."""
    from hf_localattn.studies import processes
    from tests.run_here import run_here

    start = processes._run_process
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_run_process", run_here)
        yield start


@pytest.fixture
def runs_in_processes(_runs_without_processes, monkeypatch):
    """Start a process for each run, forked from one that has done a run: the first one takes seconds more."""
    from hf_localattn.studies import processes
    from tests.fresh_process import bare_python

    monkeypatch.setattr(processes, "_run_process", _runs_without_processes)
    monkeypatch.setattr(processes, "PYTHON", bare_python("tests.warm_runs"))


@pytest.fixture
def poisoned_memory():
    """`torch.empty` gives NaN, so that whoever reads memory before writing it is found out."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def demo_output(tmp_path_factory):
    """Output folder of the demo, with a model that learned the questions of docs/question_answering.md by heart."""
    from tests.programs import demo_by_heart

    output = tmp_path_factory.mktemp("demo") / "demo_output"
    demo = demo_by_heart(output.parent)
    demo["save"](demo["train"]("cool", Namespace(seed=0, steps=30)), output, {})
    return output
