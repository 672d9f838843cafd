"""Real workers under --num_folds and --search_space: the same bits as one process, also after kills."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hf_localattn.claims import LOCK
from hf_localattn.studies import executors
from tests.faults.commands import SAMPLES, assert_same, outcome
from tests.script_helpers import assert_one_line_error, load_main

COMMON = ("--family", "cool", "--backbone", "tiny", "--local_config", "num_local_layers=1", "--use_cpu")
COMMON += ("--disable_tqdm", "true", "--per_device_train_batch_size", "2", "--max_seq_length", "16")
COMMON += ("--train_file", str(SAMPLES / "reviews.csv"))
FOLDS = (*COMMON, "--num_folds", "2", "--max_steps", "6", "--save_steps", "2")
DIES_AT_THE_FIRST_CHECKPOINT = """
import os, runpy, signal
from transformers.trainer_callback import DefaultFlowCallback

def kill(callback, arguments, state, control, **_):
    if state.global_step == 2 and "fold-2" in arguments.output_dir:
        os.kill(os.getpid(), signal.SIGKILL)

DefaultFlowCallback.on_save = kill
runpy.run_module("hf_localattn.studies.worker", run_name="__main__", alter_sys=True)
"""
"""Program of a worker. After the first checkpoint the second fold resumes, and does not write it again."""
SPACE = {"learning_rate": [1e-3, 1e-2], "use_conv": [True]}


def folder_of(path):
    """A folder for the output: nothing that is written there names another path."""
    path.mkdir()
    return path


def run(options, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return load_main("run_glue")([*options, "--output_dir", "out"])


def left(folder):
    """All that there is but the logs and locks of workers."""
    return {name: own for name, own in outcome(folder).items() if not name.endswith((".log", LOCK))}


def holder(folder, wanted, deadline=120.0):
    """Wait for a file of a trial that is at work, and return the process."""
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        with suppress(OSError, ValueError):
            process = int((folder / LOCK).read_text().split()[0])
            if (folder / wanted).exists():
                return process
        time.sleep(0.002)
    raise TimeoutError(folder)


def is_alive(process):
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What folds leave without workers."""
    folder = folder_of(tmp_path_factory.mktemp("workers") / "alone")
    with pytest.MonkeyPatch.context() as patched:
        metrics = run(FOLDS, folder, patched)
    return left(folder), metrics


@pytest.mark.usefixtures("workers_are_warm")
def test_folds_in_workers_of_which_one_is_killed(alone, tmp_path, monkeypatch, caplog):
    folder = folder_of(tmp_path / "case")
    *python, _, _ = executors.WORKER
    monkeypatch.setattr(executors, "WORKER", (*python, "-c", DIES_AT_THE_FIRST_CHECKPOINT))
    metrics = run((*FOLDS, "--workers", "2"), folder, monkeypatch)
    assert caplog.text.count("fold-2 was killed by SIGKILL. Resuming in a new process") == 1
    assert metrics == alone[1]
    assert_same(left(folder), alone[0])


@pytest.mark.slow(reason="two commands and four processes that import everything")
def test_workers_end_with_their_driver_and_the_same_command_goes_on(alone, tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "case")
    driver = os.fork()
    if not driver:
        with suppress(BaseException):
            run((*FOLDS, "--workers", "2"), folder, monkeypatch)
        os._exit(0)
    processes = [holder(folder / "out" / "fold-1", "checkpoint-2")]
    os.kill(driver, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]) == -signal.SIGKILL
    until = time.monotonic() + 10
    while any(map(is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, processes))
    assert run((*FOLDS, "--workers", "2"), folder, monkeypatch) == alone[1]
    assert_same(left(folder), alone[0])


@pytest.mark.slow(reason="two processes that import everything; that workers run what they are given is tested above")
def test_a_search_in_workers_tries_what_one_process_tries(tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="the extra `search`")
    space = tmp_path / "space.json"
    space.write_text(json.dumps(SPACE))
    given = (
        *COMMON,
        "--validation_file",
        str(SAMPLES / "reviews.csv"),
        "--max_steps",
        "2",
        "--search_space",
        str(space),
    )
    found = {}
    for workers in ("1", "2"):
        folder = folder_of(tmp_path / workers)
        run((*given, "--workers", workers), folder, monkeypatch)
        found[workers] = json.loads((folder / "out" / "search.json").read_text())
        for trial in found[workers]["trials"]:
            del trial["seconds"]
    assert found["1"] == found["2"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--num_folds", "2", "--workers", "0"), "--workers must be at least 1; got 0"),
        (
            ("--do_train", "--workers", "2"),
            "--workers 2 runs folds or trials of a search in parallel: give --num_folds",
        ),
        (("--do_train", "--ray_address", "auto"), "--ray_address auto runs folds or trials of a search in parallel"),
    ],
)
def test_options_of_workers(tmp_path, capsys, more, message):
    out = tmp_path / "out"
    assert_one_line_error(load_main("run_glue"), [*COMMON, *more, "--output_dir", str(out)], message, out, capsys)
