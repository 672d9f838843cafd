"""Runs of scripts in processes: killed, failing, stopped, one after the other or side by side."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from hf_localattn.files import UNFINISHED
from hf_localattn.studies import processes
from hf_localattn.studies.processes import Machine, RayCluster, RunFailed, ScriptRun, finished, run_all, run_script
from tests.qa_helpers import write_jsonl

TEXTS = ["the cat sat", "on the mat", "who sat?", "the red dog"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "classes.jsonl"
    write_jsonl(path, [{"text": text, "label": label} for label in ("ant", "bee") for text in TEXTS])
    return path


def script_run(folder, data, **options):
    common = {"family": "baseline", "backbone": "tiny", "train_file": str(data), "max_seq_length": 16, "use_cpu": True}
    steps = {"max_steps": 4, "save_steps": 1, "do_train": True, "disable_tqdm": True, "output_dir": str(folder)}
    return ScriptRun("text-classification", {**common, **steps, **options}, folder)


def kill_when_there(path):
    """Kill the process that writes a file, from another thread."""

    def kill(process):
        process.start()

        def wait():
            while process.is_alive() and not path.exists():
                time.sleep(0.01)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

        if not path.exists():
            threading.Thread(target=wait, daemon=True).start()

    return kill


def test_a_killed_run_resumes_and_ends_as_if_it_had_not_been(data, tmp_path, caplog):
    expected = run_script(script_run(tmp_path / "whole", data), {}, os.getcwd())
    killed = script_run(tmp_path / "killed", data)
    found = run_script(killed, {}, os.getcwd(), kill_when_there(tmp_path / "killed" / "checkpoint-1" / "config.json"))
    assert found["train_loss"] == expected["train_loss"]
    assert "was killed by SIGKILL. Resuming in a new process" in caplog.text
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
    assert "Training" in (tmp_path / "killed.log").read_text()
    assert json.loads((tmp_path / "killed.json").read_text())["max_steps"] == 4
    assert run_script(killed, {}, os.getcwd(), start=None) == found, "it is finished"


def test_the_last_line_of_the_log_is_the_error(data, tmp_path):
    with pytest.raises(RunFailed, match=r"^--max_seq_length must be at least 1; got 0\. \(.*run\.log\)$"):
        run_script(script_run(tmp_path / "run", data, max_seq_length=0), {}, os.getcwd())


def test_what_is_killed_too_often_fails(data, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "RETRIES", 1)

    def kill(process):
        process.start()
        process.kill()

    with pytest.raises(RunFailed, match="killed by SIGKILL, for the 2th time"):
        run_script(script_run(tmp_path / "run", data), {}, os.getcwd(), kill)


def test_runs_that_follow_are_in_the_same_place(data, tmp_path):
    own = script_run(tmp_path / "test", data, train_file=None, test_file=str(data), do_train=False, do_predict=True)
    test = {**own.options, "model_name_or_path": str(tmp_path / "model"), "family": None, "backbone": None}
    first = script_run(tmp_path / "model", data)
    run = ScriptRun(first.task, first.options, first.folder, (ScriptRun(own.task, test, own.folder),))
    assert "train_loss" in run_script(run, {}, os.getcwd())
    assert "predict_accuracy" in finished(tmp_path / "test")


def test_a_run_ends_with_the_process_that_has_started_it(data, tmp_path):
    run = script_run(tmp_path / "run", data, max_steps=100_000, save_steps=100_000)
    program = (
        "import json, os, sys; from pathlib import Path\n"
        "from hf_localattn.studies.processes import ScriptRun, run_script\n"
        "task, options, folder = json.load(open(sys.argv[1]))\n"
        "def start(process): process.start(); print(process.pid, flush=True)\n"
        "run_script(ScriptRun(task, options, Path(folder)), {}, os.getcwd(), start)\n"
    )
    (tmp_path / "driver.py").write_text(program)
    (tmp_path / "run.in").write_text(json.dumps([run.task, run.options, str(run.folder)]))
    command = [sys.executable, tmp_path / "driver.py", tmp_path / "run.in"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        pid = int(driver.stdout.readline())
        driver.kill()
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the run goes on")


@pytest.mark.parametrize(("files", "is_finished"), [([], False), (["all_results.json"], True), ([UNFINISHED], False)])
def test_a_run_is_finished_when_its_last_file_is_there(files, is_finished, tmp_path):
    for name in files:
        (tmp_path / name).write_text("{}")
    assert (finished(tmp_path) is not None) == is_finished


class Fake:
    """A machine whose runs end when they are asked for."""

    def __init__(self, count, failing=()):
        self.count, self.failing, self.begun, self.stopped = count, failing, [], False

    def submit(self, run):
        self.begun.append(run.folder.name)
        future = Future()
        if run.folder.name in self.failing:
            future.set_exception(RunFailed("no room"))
        else:
            future.set_result({"eval_f1": run.folder.name})
        return future

    def stop(self):
        self.stopped = True


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_next_run_is_chosen_when_it_can_start(count):
    machine, ended = Fake(count, failing=("b",)), []

    def runs():
        for name in "abcde":
            assert len(machine.begun) - len(ended) < count
            yield ScriptRun("x", {}, Path(name))

    for run, outcome in run_all(runs(), machine):
        ended.append(run.folder.name)
        assert isinstance(outcome, RunFailed) if run.folder.name == "b" else outcome == {"eval_f1": run.folder.name}
    assert sorted(ended) == list("abcde")
    assert machine.stopped


@pytest.mark.parametrize(
    ("workers", "gpus", "expected"),
    [
        (2, ["3", "5"], [{"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"}]),
        (1, ["3", "5"], [{"CUDA_VISIBLE_DEVICES": "3"}]),
        (3, ["3"], [{"CUDA_VISIBLE_DEVICES": "3"}] * 3),
        (1, [], [{}]),
        (2, [], [{}, {}]),
    ],
)
def test_each_process_has_a_gpu_or_a_share_of_the_cores(workers, gpus, expected, monkeypatch):
    monkeypatch.setattr(processes, "visible_gpus", lambda: gpus)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine = Machine(workers)
    found = [machine.environments.get() for _ in range(workers)]
    threads = [environment.pop("OMP_NUM_THREADS", None) for environment in found]
    assert found == expected
    assert (threads == [None]) == (workers == 1)
    machine.stop()
    shared = Machine(2, use_cpu=True)
    assert "CUDA_VISIBLE_DEVICES" not in shared.environments.get()
    shared.stop()


@pytest.mark.cluster(reason="needs the extra `cluster`, and starts Ray")
def test_runs_on_ray_end_as_here(data, tmp_path):
    ray = pytest.importorskip("ray", reason="the extra `cluster`")
    expected = run_script(script_run(tmp_path / "here", data), {"OMP_NUM_THREADS": "1"}, os.getcwd())
    runs = [script_run(tmp_path / "there", data), script_run(tmp_path / "fails", data, max_seq_length=0)]
    found = {run.folder.name: outcome for run, outcome in run_all(runs, RayCluster("local", 2, use_cpu=True))}
    ray.shutdown()
    assert found["there"]["train_loss"] == expected["train_loss"]
    assert isinstance(found["fails"], RunFailed)
    assert "must be at least 1" in str(found["fails"])
