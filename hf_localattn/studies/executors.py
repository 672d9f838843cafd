"""Executors of trials: in this process, or in worker processes that share the machine's GPUs or cores.

An executor yields each outcome as soon as it is known. It takes the next job only when it can start that job, because
a search chooses the next setting by the scores so far. A killed trial resumes from its last checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pkgutil
import queue
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from hf_localattn.claims import InUse
from hf_localattn.studies.trial import Prepared, Trial, free_memory, prepare_trial, run_trial

logger = logging.getLogger(__name__)

RETRIES = 3
"""Maximum number of restarts of a trial whose process was killed."""

PATIENCE = 10.0
"""Seconds to wait for a process to end before it is killed."""

WORKER = (sys.executable, "-P", "-m", "hf_localattn.studies.worker")
"""Command of a worker process. `-P` keeps the current folder out of its `sys.path`."""

OF_THE_SETTING = (ValueError, FloatingPointError, torch.OutOfMemoryError)
"""Errors that the setting of a trial may have caused."""


@dataclass(frozen=True)
class Job:
    """A trial with its folder, as data that can be sent to another process.

    Attributes:
        trial: the trial to run.
        folder: its folder. Jobs that run at the same time must have different folders.
        function: module-level function that is called with trial, folder and `**options` and returns the metrics.
        options: JSON-serializable keyword arguments of the function.
    """

    trial: Trial
    folder: Path
    function: Callable[..., dict[str, Any]] = run_trial
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the job as one line of JSON."""
        line = {
            "trial": dataclasses.asdict(self.trial),
            "folder": str(self.folder.absolute()),
            "function": f"{self.function.__module__}:{self.function.__qualname__}",
            "options": self.options,
        }
        return json.dumps(line, default=str)

    @classmethod
    def from_json(cls, line: str) -> Job:
        """Return the job from a line written by `to_json`."""
        found = json.loads(line)
        function = pkgutil.resolve_name(found["function"])
        return cls(Trial.from_dict(found["trial"]), Path(found["folder"]), function, found["options"])

    def run(self) -> dict[str, Any]:
        """Run the job in this process and return its metrics."""
        return self.function(self.trial, self.folder, **self.options)


class TrialFailed(RuntimeError):
    """A trial has failed in another process.

    Args:
        reason: the cause, for the message.
        log: file with the details, added to the message.
    """

    def __init__(self, reason: str, log: str | Path | None = None):
        super().__init__(reason if log is None else f"{reason} ({log})")
        self.reason = reason


def reason_of(error: BaseException) -> str:
    """Return the message of an error on one line. Messages of unexpected errors begin with the error type."""
    if isinstance(error, TrialFailed):
        return error.reason
    text = " ".join(str(error).split())
    if isinstance(error, (*OF_THE_SETTING, OSError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def is_of_setting(error: BaseException) -> bool:
    """Return True for an error that the setting of a trial may have caused."""
    return isinstance(error, OF_THE_SETTING) and not isinstance(error, InUse)


@dataclass(frozen=True)
class Outcome:
    """Result of a job: metrics, or an error.

    Attributes:
        job: the job.
        metrics: the metrics of its trial; empty after an error.
        error: the exception; `TrialFailed` if it was raised in another process.
        is_of_setting: True if the trial's setting may be the cause of the error, such as lack of memory.
    """

    job: Job
    metrics: dict[str, Any]
    error: Exception | None = None
    is_of_setting: bool = False


class Executor(Protocol):
    """Runs jobs sequentially or in parallel."""

    def check(self, job: Job) -> None:
        """Prepare a job before the first job is run. Raises an error if arguments, data or model are invalid."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Run jobs and yield their outcomes in the order in which they end."""


class InProcess:
    """Runs jobs sequentially in this process."""

    def __init__(self) -> None:
        self._checked: dict[Path, Prepared] = {}

    def check(self, job: Job) -> None:
        """Prepare a job and keep it for `run`."""
        self._checked[job.folder] = prepare_trial(job.trial, job.folder)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Run jobs in the given order."""
        for job in jobs:
            try:
                if job.folder in self._checked:  # no variable may refer to the run, so that its model can be freed
                    metrics = run_trial(job.trial, job.folder, prepared=self._checked.pop(job.folder))
                else:
                    metrics = job.run()
            except Exception as error:
                outcome = Outcome(job, {}, error, is_of_setting(error))
                if outcome.is_of_setting:  # frees the models that the frames of the traceback refer to
                    traceback.clear_frames(error.__traceback__)
            else:
                outcome = Outcome(job, metrics)
            yield outcome


class Workers:
    """Runs jobs in worker processes, each on one GPU, or on a share of the cores if there are no GPUs.

    A killed worker is replaced, and its trial resumes from its last checkpoint. Workers end when this process ends or
    is killed.

    Args:
        count: number of jobs at a time.
        folder: folder of the log files `worker-1.log` and so on, with the output of trials.
        use_cpu: use no GPUs.
    """

    def __init__(self, count: int, folder: Path, *, use_cpu: bool = False):
        gpus = [] if use_cpu else visible_gpus()
        if 0 < len(gpus) < count:
            logger.warning(
                "--workers %d share %d GPU%s. If their memory is too small for several trials, give as many workers as"
                " GPUs.",
                *(count, len(gpus), "" if len(gpus) == 1 else "s"),
            )
        cores = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        shares = {"OMP_NUM_THREADS": str(max(1, cores // count))}
        self.environments = [
            {**shares, **os.environ, **({"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {})}
            for number in range(count)
        ]
        self.folder = folder

    def check(self, job: Job) -> None:
        """Prepare a job in this process, to raise its errors early."""
        check_elsewhere(job)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Run one job at a time in each worker."""
        workers = [
            _Worker(self.folder / f"worker-{number}.log", environment)
            for number, environment in enumerate(self.environments, start=1)
        ]
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def work(job: Job) -> Outcome:
            worker = idle.get()
            try:
                return worker.run(job)
            finally:
                idle.put(worker)

        source, running = iter(jobs), set[Future[Outcome]]()
        with ThreadPoolExecutor(len(workers)) as threads:
            try:
                while True:
                    while len(running) < len(workers) and (job := next(source, None)) is not None:
                        running.add(threads.submit(work, job))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for worker in workers:
                    worker.stop()


class _Worker:
    """A process of the program `hf_localattn.studies.worker`. It runs one job at a time."""

    def __init__(self, log: Path, environment: dict[str, str]):
        # The worker gets the import path of this process, including the folder of the script.
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self.log, self.environment = log, {**environment, "PYTHONPATH": paths}
        self.process: subprocess.Popen[str] | None = None
        self.is_stopped = False

    def run(self, job: Job) -> Outcome:
        for attempt in range(1 + RETRIES):
            if answer := self._ask(job):
                return outcome_of(job, json.loads(answer), self.log)
            if self.is_stopped:
                return Outcome(job, {}, TrialFailed("it was stopped"))
            end = self._end()
            if attempt < RETRIES:
                logger.warning("The process of %s %s. Resuming in a new process.", job.folder, end)
        return Outcome(job, {}, TrialFailed(f"its process {end}, for the {1 + RETRIES}th time", self.log))

    def _ask(self, job: Job) -> str:
        """Return the answer of the process, or an empty text if the process is killed."""
        if self.process is None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                self.process = subprocess.Popen(
                    WORKER,
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,  # Ctrl-C interrupts only this process; it then stops the workers
                )
        if self.is_stopped:  # another thread has stopped the worker in the meantime
            self.stop()
            return ""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(job.to_json() + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline()
        except (OSError, ValueError):  # killed, or stopped
            return ""

    def _end(self) -> str:
        """Wait until the process ends, and describe how it ended."""
        assert self.process is not None
        with self.process as process, suppress(BrokenPipeError):
            code = process.wait()
        self.process = None
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def stop(self) -> None:
        """End the process, even during a job."""
        self.is_stopped = True
        if (process := self.process) is None:
            return
        assert process.stdin is not None
        with suppress(OSError, ValueError):
            process.stdin.close()
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def check_elsewhere(job: Job) -> None:
    """Prepare a job for another process, to raise errors in its arguments, data or model here."""
    prepare_trial(job.trial, job.folder)
    free_memory()


def outcome_of(job: Job, answer: Mapping[str, Any], log: str | Path) -> Outcome:
    """Return the outcome of a job from the answer of another process. `log` is the log file of that process."""
    if "error" not in answer:
        return Outcome(job, answer["metrics"])
    return Outcome(job, {}, TrialFailed(answer["error"], log), answer["is_of_setting"])


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, named as in `CUDA_VISIBLE_DEVICES`."""
    chosen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (chosen or [str(number) for number in range(torch.cuda.device_count())])[: torch.cuda.device_count()]


def executor_of(workers: int, ray_address: str | None, folder: Path, *, use_cpu: bool = False) -> Executor:
    """Return the executor for `--workers` and `--ray_address`.

    Args:
        workers: number of jobs at a time. With 1, the default, jobs run in this process, or one on each GPU (or core)
            of the Ray cluster.
        ray_address: address of a Ray cluster. None runs processes on this machine.
        folder: folder of the log files of worker processes.
        use_cpu: use no GPUs.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no Ray cluster at the address.
    """
    if ray_address is not None:
        from hf_localattn.studies.ray_executor import RayCluster

        return RayCluster(ray_address, None if workers == 1 else workers, use_cpu=use_cpu)
    return InProcess() if workers == 1 else Workers(workers, folder, use_cpu=use_cpu)
