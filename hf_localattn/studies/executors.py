"""Executors of trials: in this process, or in worker processes that share the machine's GPUs or cores.

All yield outcomes as they come and take the next job only when there is room for it, so that a search can ask for a
setting when the scores of the ones before are known. A trial that was killed goes on from its last checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch

from hf_localattn.claims import InUse
from hf_localattn.studies.trial import Prepared, Trial, free_memory, prepare_trial, run_trial
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.console import set_up_logging

if TYPE_CHECKING:
    from hf_localattn.studies.ray_executor import RayCluster

logger = logging.getLogger(__name__)

RETRIES = 3
"""Restarts of a trial whose process was killed, at most."""

PATIENCE = 10.0
"""Seconds that a process has to end by itself."""

WORKER = (sys.executable, "-P", "-m", "hf_localattn.studies.worker")
"""The command that starts a worker process for trials. It gets the paths of this process, not the current folder."""

OF_THE_SETTING = (ValueError, FloatingPointError, torch.OutOfMemoryError)
"""Errors that the setting of a trial may be the cause of."""


@dataclass(frozen=True)
class Job:
    """A trial and its folder; `keep` leaves model and checkpoints there."""

    trial: Trial
    folder: Path
    keep: bool = True

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps({**dataclasses.asdict(self), "folder": str(self.folder.absolute())}, default=str)

    @classmethod
    def from_json(cls, line: str) -> Job:
        """Make it of that line."""
        found = json.loads(line)
        return cls(Trial.from_dict(found["trial"]), Path(found["folder"]), found["keep"])

    def run(self) -> dict[str, Any]:
        """Run it in this process, and return its metrics."""
        set_up_logging(self.trial.arguments(self.folder)[2])
        return run_trial(self.trial, self.folder, keep=self.keep)


class Work(Protocol):
    """Anything that workers can run: a `Job`, or a run of a table."""

    @property
    def folder(self) -> Path:
        """Folder of the job. Jobs that run at the same time have different ones."""

    def to_json(self) -> str:
        """Return it as one line, from which the program of the worker makes it again."""

    def run(self) -> dict[str, Any]:
        """Run it in this process, and return its metrics."""


W = TypeVar("W", bound=Work)


class TrialFailed(RuntimeError):
    """Trials failed in other processes.

    Args:
        reason: why they failed.
        log: file with the details.
    """

    def __init__(self, reason: str, log: str | Path | None = None):
        super().__init__(reason if log is None else f"{reason} ({log})")
        self.reason = reason


def reason_of(error: BaseException) -> str:
    """Return the message of an error on one line, with its type where that says more."""
    if isinstance(error, TrialFailed):
        return error.reason
    text = " ".join(str(error).split())
    if isinstance(error, (*OF_THE_SETTING, OSError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def is_of_setting(error: BaseException) -> bool:
    """Return True for an error that the setting of a trial may be the cause of."""
    return isinstance(error, OF_THE_SETTING) and not isinstance(error, InUse)


@dataclass(frozen=True)
class Outcome(Generic[W]):
    """Result of a job: metrics, or an error.

    Attributes:
        job: which one.
        metrics: of its trial; empty after an error.
        error: the exception; `TrialFailed` if it was in another process.
        is_of_setting: True if the error may come from the trial's setting, such as too little memory.
    """

    job: W
    metrics: dict[str, Any]
    error: Exception | None = None
    is_of_setting: bool = False


class Executor(Protocol):
    """Runs jobs, several at a time or one after the other."""

    def check(self, job: Job) -> None:
        """Raise what is wrong with arguments, data or model of a job, before any is run."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome[Job]]:
        """Run jobs and yield how they end, in the order in which they do."""


class InProcess:
    """Runs one job after the other in this process."""

    def __init__(self) -> None:
        self._checked: dict[Path, Prepared] = {}

    def check(self, job: Job) -> None:
        """Prepare a job, which `run` then takes up."""
        self._checked[job.folder] = prepare_trial(job.trial, job.folder)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome[Job]]:
        """Run jobs in their order."""
        for job in jobs:
            try:
                checked = self._checked
                metrics = run_trial(job.trial, job.folder, keep=job.keep, prepared=checked.pop(job.folder, None))
            except Exception as error:
                outcome = Outcome(job, {}, error, is_of_setting(error))
                if outcome.is_of_setting:  # the next trial needs the memory of the models that its frames hold
                    traceback.clear_frames(error.__traceback__)
            else:
                outcome = Outcome(job, metrics)
            yield outcome


class Workers:
    """Runs jobs in worker processes, each on one GPU where there are GPUs, else on a share of the cores.

    A worker that is killed is replaced, and its trial goes on from its last checkpoint. Workers end when this process
    ends, however it does.

    Args:
        count: how many jobs run at a time.
        folder: for the files `worker-1.log` and so on, with all that trials print.
        use_cpu: leave GPUs alone.
        command: starts a worker process; by default one for trials.
    """

    def __init__(self, count: int, folder: Path, *, use_cpu: bool = False, command: Sequence[str] | None = None):
        gpus = [] if use_cpu else visible_gpus()
        if 0 < len(gpus) < count:
            logger.warning(
                "--workers %d share %d GPU%s, whose memory has to hold several trials at a time: give as many workers"
                " as there are GPUs if it does not.",
                *(count, len(gpus), "" if len(gpus) == 1 else "s"),
            )
        cores = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        shares = {"OMP_NUM_THREADS": str(max(1, cores // count))}
        self.environments = [
            {**shares, **os.environ, **({"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {})}
            for number in range(count)
        ]
        self.folder, self.command = folder, WORKER if command is None else command

    def check(self, job: Job) -> None:
        """Prepare a job here, and forget it."""
        check_elsewhere(job)

    def run(self, jobs: Iterable[W]) -> Iterator[Outcome[W]]:
        """Run as many jobs at a time as there are workers."""
        workers = [
            _Worker(self.command, self.folder / f"worker-{number}.log", environment)
            for number, environment in enumerate(self.environments, start=1)
        ]
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def work(job: W) -> Outcome[W]:
            worker = idle.get()
            try:
                return worker.run(job)
            finally:
                idle.put(worker)

        source, running = iter(jobs), set[Future[Outcome[W]]]()
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
    """A process that runs one job after the other; `hf_localattn.studies.worker` is its other half."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]):
        # It imports what this process would: a script may stand anywhere.
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self.command, self.log, self.environment = command, log, {**environment, "PYTHONPATH": paths}
        self.process: subprocess.Popen[str] | None = None
        self.is_stopped = False

    def run(self, job: W) -> Outcome[W]:
        for attempt in range(1 + RETRIES):
            if answer := self._ask(job):
                return outcome_of(job, json.loads(answer), self.log)
            if self.is_stopped:
                return Outcome(job, {}, TrialFailed("it was stopped"))
            end = self._end()
            if attempt < RETRIES:
                logger.warning("The process of %s %s; it goes on in a new one.", job.folder, end)
        return Outcome(job, {}, TrialFailed(f"its process {end}, for the {1 + RETRIES}th time", self.log))

    def _ask(self, job: Work) -> str:
        """Return the answer of the process, empty if it is killed before it has one."""
        if self.process is None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                self.process = subprocess.Popen(
                    self.command,
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for this process, which then stops them
                )
        if self.is_stopped:  # meanwhile
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
        """Wait for the end of the process, and tell it."""
        assert self.process is not None
        with self.process as process, suppress(BrokenPipeError):
            code = process.wait()
        self.process = None
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def stop(self) -> None:
        """End the process, at once if it is at work."""
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
    """Prepare a job that another process will run, which shows what is wrong with arguments, data or model."""
    prepare_trial(job.trial, job.folder)
    free_memory()


def outcome_of(job: W, answer: Mapping[str, Any], log: str | Path) -> Outcome[W]:
    """Return the outcome of a job of which another process says this; `log` tells where more is to be read."""
    if "error" not in answer:
        return Outcome(job, answer["metrics"])
    return Outcome(job, {}, TrialFailed(answer["error"], log), answer["is_of_setting"])


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    chosen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (chosen or [str(number) for number in range(torch.cuda.device_count())])[: torch.cuda.device_count()]


def executor_of(training_args: TrainingArguments) -> Executor:
    """Return what `--workers` and `--ray_address` ask for.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no Ray cluster at the address.
    """
    args = training_args
    if args.workers == 1 and args.ray_address is None:
        return InProcess()
    return executor_elsewhere(args.workers, args.ray_address, Path(args.output_dir), use_cpu=args.use_cpu)


def executor_elsewhere(
    workers: int,
    ray_address: str | None,
    folder: Path,
    *,
    use_cpu: bool = False,
    command: Sequence[str] | None = None,
) -> Workers | RayCluster:
    """Return what runs jobs in other processes.

    Args:
        workers: jobs at a time; 1 leaves their number to a Ray cluster.
        ray_address: address of a Ray cluster; None for processes of this machine.
        folder: for the logs of these.
        use_cpu: leave GPUs alone.
        command: starts a worker process; by default one for trials.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no Ray cluster at the address.
    """
    if ray_address is None:
        return Workers(workers, folder, use_cpu=use_cpu, command=command)
    from hf_localattn.studies.ray_executor import RayCluster

    return RayCluster(ray_address, None if workers == 1 else workers, use_cpu=use_cpu)
