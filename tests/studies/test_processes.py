"""Runs of scripts in processes: killed, failing, stopped, one after the other or side by side."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hf_localattn.files import UNFINISHED
from hf_localattn.studies import processes
from hf_localattn.studies.processes import RunFailed, ScriptRun, run_all, run_in_process
from hf_localattn.studies.results import finished
from tests.qa_helpers import write_jsonl

pytestmark = pytest.mark.usefixtures("runs_in_processes")

TEXTS = ["the cat sat", "on the mat", "who sat?", "the red dog"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "classes.jsonl"
    write_jsonl(path, [{"text": text, "label": label} for label in ("ant", "bee") for text in TEXTS])
    return path


def script_run(folder, data, **options):
    common = {"family": "baseline", "backbone": "tiny", "train_file": str(data), "max_seq_length": 16, "use_cpu": True}
    steps = {"max_steps": 4, "save_steps": 1, "do_train": True, "disable_tqdm": True, "output_dir": str(folder)}
    return ScriptRun("glue", {**common, **steps, **options}, folder)


def writers_of(log):
    """Return the processes whose output is a log."""
    writers = set()
    for path in Path("/proc").glob("[0-9]*/fd/1"):
        with suppress(OSError):  # the process has ended, or is not ours
            if os.readlink(path) == str(log):
                writers.add(int(path.parts[2]))
    return writers


@pytest.fixture
def kill_when(monkeypatch):
    """A function that kills so many processes of runs, each when it is time."""
    assert [*processes.PYTHON]  # what they are forked from is not the first one

    def kill(is_time, count=1):
        left = iter(range(count))

        class Killed(subprocess.Popen):
            def __init__(self, *arguments, stdout, **options):
                super().__init__(*arguments, stdout=stdout, **options)
                if next(left, None) is not None:
                    while not (is_time() and (forked := writers_of(stdout.name) - {self.pid})):
                        time.sleep(0.01)
                    for process in forked:
                        os.kill(process, signal.SIGKILL)

        monkeypatch.setattr(subprocess, "Popen", Killed)

    return kill


def test_a_killed_run_resumes_and_ends_as_if_it_had_not_been(data, tmp_path, caplog, kill_when):
    """The main program is not run again in its process, and runs that follow are run after it."""
    expected = run_in_process(script_run(tmp_path / "whole", data), {}, os.getcwd())
    test = script_run(tmp_path / "test", data, train_file=None, test_file=str(data), do_train=False, do_predict=True)
    options = {**test.options, "model_name_or_path": str(tmp_path / "killed"), "family": None, "backbone": None}
    killed = script_run(tmp_path / "killed", data)
    killed = ScriptRun("glue", killed.options, killed.folder, (ScriptRun("glue", options, test.folder),))
    kill_when((tmp_path / "killed" / "checkpoint-1" / "config.json").exists)
    found = run_in_process(killed, {}, os.getcwd())
    assert found["train_loss"] == expected["train_loss"]
    assert "was killed by SIGKILL. Resuming in a new process" in caplog.text
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
    assert "predict_accuracy" in finished(tmp_path / "test")
    assert "Training" in (tmp_path / "killed.log").read_text()
    assert json.loads((tmp_path / "killed.json").read_text())["max_steps"] == 4


def test_the_last_line_of_the_log_is_the_error(data, tmp_path):
    with pytest.raises(RunFailed, match=r"^--max_seq_length .* greater than .*run\.log\)$"):
        run_in_process(script_run(tmp_path / "run", data, max_seq_length=0), {}, os.getcwd())


def test_what_is_killed_too_often_fails(data, tmp_path, monkeypatch, kill_when):
    monkeypatch.setattr(processes, "RETRIES", 1)
    kill_when(lambda: True, count=2)
    with pytest.raises(RunFailed, match="killed by SIGKILL, for the 2th time"):
        run_in_process(script_run(tmp_path / "run", data), {}, os.getcwd())


def wait_for_end_of(*logs):
    """Wait until no process writes these logs any more."""
    for _ in range(500):
        if not any(map(writers_of, logs)):
            return
        time.sleep(0.02)
    pytest.fail("the runs go on")


DRIVER = """
import json, sys; from pathlib import Path
from hf_localattn.studies import processes
from hf_localattn.studies.processes import ScriptRun, run_all
processes.PYTHON = json.loads(sys.argv[2])
runs = [ScriptRun("glue", options, Path(folder)) for options, folder in json.load(open(sys.argv[1]))]
print(list(run_all(runs, 2, use_cpu=True)))
"""


def test_runs_end_with_the_process_that_has_started_them(data, tmp_path):
    """Of a program without a guard of its main part, killed while two runs train."""
    endless = {"max_steps": 100_000, "save_steps": 100_000, "num_train_epochs": 1}
    runs = [script_run(tmp_path / name, data, **endless) for name in "ab"]
    (tmp_path / "runs.json").write_text(json.dumps([[run.options, str(run.folder)] for run in runs]))
    (tmp_path / "driver.py").write_text(DRIVER)
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    command = [sys.executable, tmp_path / "driver.py", tmp_path / "runs.json", json.dumps([*processes.PYTHON])]
    with subprocess.Popen(command) as driver:
        while not all(log.is_file() and "Training" in log.read_text() for log in logs):
            time.sleep(0.1)
        driver.kill()
    wait_for_end_of(*logs)


def test_a_run_is_finished_when_its_mark_is_gone(tmp_path):
    assert finished(tmp_path) is None
    (tmp_path / "all_results.json").write_text("{}")
    assert finished(tmp_path) == {}
    (tmp_path / UNFINISHED).touch()
    assert finished(tmp_path) is None


@pytest.mark.parametrize("count", [1, 2, 5])
def test_runs_are_executed_so_many_at_a_time_and_those_that_fail_are_told(count, monkeypatch):
    executed, together = [], threading.Barrier(count, timeout=60)

    def fake(run, environment, folder, stdin):
        if len(executed) < count:
            executed.append(run)
            together.wait()
        if run.folder.name == "b":
            raise RunFailed("no room")
        return {"eval_f1": run.folder.name}

    monkeypatch.setattr(processes, "run_in_process", fake)
    ended = {}
    for run, outcome in run_all([ScriptRun("x", {}, Path(name)) for name in "abcde"], count, use_cpu=True):
        ended[run.folder.name] = str(outcome) if isinstance(outcome, RunFailed) else outcome["eval_f1"]
    assert ended == {"a": "a", "b": "no room", "c": "c", "d": "d", "e": "e"}


def test_a_caller_that_stops_ends_its_runs(data, tmp_path):
    """One run fails while the other would go on forever, and a third has not begun."""
    endless = {"max_steps": 100_000, "save_steps": 100_000}
    runs = [script_run(tmp_path / "endless", data, **endless), script_run(tmp_path / "fails", data, max_seq_length=0)]
    runs.append(script_run(tmp_path / "third", data, **endless))
    with closing(run_all(runs, 2, use_cpu=True)) as ended:
        _, outcome = next(ended)
        assert isinstance(outcome, RunFailed)
    assert not (tmp_path / "third").exists()
    wait_for_end_of(tmp_path / "endless.log")


@pytest.mark.parametrize(
    ("workers", "gpus", "expected"),
    [(2, "3,5", ["3", "5"]), (1, "3,5", ["3"]), (3, "3", ["3", "3", "3"]), (1, "", [None]), (2, "", [None, None])],
)
def test_each_process_has_a_gpu_or_a_share_of_the_cores(workers, gpus, expected, monkeypatch):
    found = {}
    monkeypatch.setattr(processes.torch.cuda, "device_count", lambda: len(gpus.split(",")) if gpus else 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    together = threading.Barrier(workers)

    def fake(run, environment, folder, stdin):
        together.wait()
        found[run.folder.name] = dict(environment)

    monkeypatch.setattr(processes, "run_in_process", fake)
    runs = [ScriptRun("x", {}, Path(str(number))) for number in range(workers)]
    list(run_all(runs, workers))
    assert [found[name].get("CUDA_VISIBLE_DEVICES") for name in sorted(found)] == expected
    assert all(("OMP_NUM_THREADS" in own) == (workers > 1) for own in found.values())
    list(run_all(runs, workers, use_cpu=True))
    assert "CUDA_VISIBLE_DEVICES" not in found["0"]


@pytest.mark.cluster(reason="needs the extra `cluster`, and starts Ray")
def test_runs_on_ray_end_as_here(data, tmp_path):
    ray = pytest.importorskip("ray", reason="the extra `cluster`")
    expected = run_in_process(script_run(tmp_path / "here", data), {"OMP_NUM_THREADS": "1"}, os.getcwd())
    runs = [script_run(tmp_path / "there", data), script_run(tmp_path / "fails", data, max_seq_length=0)]
    found = {run.folder.name: outcome for run, outcome in run_all(runs, 2, "local", use_cpu=True)}
    ray.shutdown()
    assert found["there"]["train_loss"] == expected["train_loss"]
    assert isinstance(found["fails"], RunFailed)
    assert str(found["fails"]).startswith("--max_seq_length must be at least 1")
