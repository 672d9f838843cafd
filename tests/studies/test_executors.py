"""Executors with workers that train nothing; test_workers.py has real ones."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

from hf_localattn.data.folds import Fold
from hf_localattn.studies import executors
from hf_localattn.studies.executors import InProcess, Job, TrialFailed, Workers, reason_of, visible_gpus
from hf_localattn.studies.progress import Pace
from hf_localattn.studies.trial import Trial

# The other half of the protocol, without torch. The folder of a job says what becomes of it.
WORKER = """
import json, os, sys, time
for line in sys.stdin:
    job = json.loads(line)
    folder = job["folder"]
    os.makedirs(folder, exist_ok=True)
    attempts = len(os.listdir(folder))
    open(f"{folder}/.{attempts}-{os.getpid()}", "w").close()
    print("said", flush=True, file=sys.stderr)
    if "killed" in folder and ("always" in folder or not attempts):
        os.kill(os.getpid(), 9)
    if "waits" in folder:
        time.sleep(600)
    answer = {"metrics": {"eval_f1": job["trial"]["seed"], "gpu": os.environ.get("CUDA_VISIBLE_DEVICES")}}
    if folder.endswith(os.environ.get("FAILING", "fails")):
        answer = {"error": "no such parser", "is_of_setting": True}
    if "slow" in folder:
        time.sleep(0.5)
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(autouse=True)
def _worker(monkeypatch):
    monkeypatch.setattr(executors, "WORKER", (sys.executable, "-c", WORKER))


def job(folder, seed=0, **changes):
    return Job(Trial("text-classification", {}, {}, {}, seed=seed, **changes), Path(folder))


def processes_of(folder):
    return [name.split("-")[1] for name in sorted(os.listdir(folder))]


def test_a_job_is_a_line(tmp_path):
    own = job(tmp_path, seed=3, fold=Fold(1, 2, 0))
    assert "\n" not in own.to_json()
    assert Job.from_json(own.to_json()) == own


def test_jobs_are_shared_out_and_outcomes_come_as_they_end(tmp_path):
    jobs = [job(tmp_path / name, seed) for seed, name in enumerate(("slow", "a", "b"))]
    found = list(Workers(2, tmp_path, use_cpu=True).run(jobs))
    assert [outcome.job.trial.seed for outcome in found] == [1, 2, 0]
    assert [outcome.metrics["eval_f1"] for outcome in found] == [1, 2, 0]
    assert len({process for own in jobs for process in processes_of(own.folder)}) == 2
    assert (tmp_path / "worker-1.log").read_text() == "said\n"


def test_a_job_is_asked_for_when_there_is_room(tmp_path):
    told = []

    def jobs():
        for seed in range(3):
            assert told == list(range(seed)), "the score of each trial is known before the next"
            yield job(tmp_path / str(seed), seed)

    for outcome in Workers(1, tmp_path, use_cpu=True).run(jobs()):
        told.append(outcome.metrics["eval_f1"])
    assert told == [0, 1, 2]


def test_a_failure_is_told_and_the_others_go_on(tmp_path):
    jobs = [job(tmp_path / name) for name in ("fails", "a", "b")]
    found = {outcome.job.folder.name: outcome for outcome in Workers(2, tmp_path, use_cpu=True).run(jobs)}
    assert isinstance(found["fails"].error, TrialFailed)
    assert re.fullmatch(r"no such parser \(.*worker-[12].log\)", str(found["fails"].error))
    assert reason_of(found["fails"].error) == "no such parser"
    assert found["fails"].is_of_setting
    assert (found["a"].error, found["b"].error) == (None, None)


def test_a_killed_worker_is_replaced(tmp_path, caplog):
    (outcome,) = Workers(1, tmp_path, use_cpu=True).run([job(tmp_path / "killed", seed=5)])
    assert outcome.metrics["eval_f1"] == 5
    assert len(set(processes_of(tmp_path / "killed"))) == 2
    assert re.search("The process of .*killed was killed by SIGKILL. Resuming in a new process", caplog.text)


def test_a_trial_whose_workers_are_killed_again_and_again_fails(tmp_path):
    jobs = [job(tmp_path / "killed-always"), job(tmp_path / "a")]
    failed, done = Workers(1, tmp_path, use_cpu=True).run(jobs)
    assert re.match(r"its process was killed by SIGKILL, for the 4th time \(.*worker-1.log\)", str(failed.error))
    assert not failed.is_of_setting
    assert done.error is None


def test_workers_end_with_whoever_stops_asking(tmp_path, monkeypatch):
    """Such as by an exception, or Ctrl-C, while they are at work."""
    outcomes = Workers(2, tmp_path, use_cpu=True).run([job(tmp_path / "a"), job(tmp_path / "waits")])
    assert next(outcomes).job.folder.name == "a"
    while not (tmp_path / "waits").is_dir() or not os.listdir(tmp_path / "waits"):
        time.sleep(0.01)
    (process,) = processes_of(tmp_path / "waits")
    monkeypatch.setattr(executors, "PATIENCE", 0.1)
    outcomes.close()
    assert not Path(f"/proc/{process}").exists()


@pytest.mark.parametrize(
    ("visible", "devices", "expected"),
    [(None, 2, ["0", "1"]), ("3,5", 2, ["3", "5"]), ("GPU-a", 1, ["GPU-a"]), ("", 0, []), (None, 0, [])],
)
def test_gpus_are_those_that_this_process_may_use(monkeypatch, visible, devices, expected):
    monkeypatch.setattr("torch.cuda.device_count", lambda: devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_gpus() == expected


def test_each_worker_has_a_gpu_or_shares_one(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(executors, "visible_gpus", lambda: ["3", "5"])
    found = Workers(3, tmp_path).run([job(tmp_path / f"slow-{number}") for number in range(3)])
    assert sorted(outcome.metrics["gpu"] for outcome in found) == ["3", "3", "5"]
    assert "--workers 3 share 2 GPUs" in caplog.text


def test_cores_are_shared_out_unless_the_user_says_how_many(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert Workers(3, tmp_path, use_cpu=True).environments[2]["OMP_NUM_THREADS"] == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert Workers(3, tmp_path, use_cpu=True).environments[2]["OMP_NUM_THREADS"] == "5"


def test_in_this_process_an_error_is_itself(tmp_path):
    wrong = Trial("no-such-task", {}, {}, {})
    (outcome,) = InProcess().run([Job(wrong, tmp_path / "a")])
    assert isinstance(outcome.error, ValueError)
    assert "There is no task 'no-such-task'" in str(outcome.error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("too\n  long"), "too long"),
        (KeyError("f1"), "KeyError: 'f1'"),
        (ValueError(), "ValueError"),
        (FileNotFoundError(2, "No such file", "x"), "[Errno 2] No such file: 'x'"),
    ],
)
def test_reasons_are_one_line(error, expected):
    assert reason_of(error) == expected


def test_the_time_that_is_left(monkeypatch):
    now = iter([0.0, 10.0, 12.0, 30.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    pace = Pace(3)
    assert [pace.step().total_seconds() for _ in range(3)] == [20, 6, 0]
