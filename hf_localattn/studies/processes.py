"""Runs of the training scripts in processes. Each is `hf-localattn train SCRIPT options.json`.

A run that is finished is not run again, and one that was killed resumes from its last checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from hf_localattn.errors import ENDS_WITH_STDIN
from hf_localattn.files import atomic_write
from hf_localattn.studies.cluster import Cluster
from hf_localattn.studies.results import finished

logger = logging.getLogger(__name__)

RETRIES = 3
"""Maximum number of restarts of a run whose process was killed."""

PYTHON = (sys.executable,)
"""Words that start Python."""

COMMAND = "import sys, hf_localattn_command; sys.exit(hf_localattn_command.main())"
"""Program of `hf-localattn`. It watches its standard input before it imports torch; `-m hf_localattn` does after."""

Environment = dict[str, str]
Item = TypeVar("Item")
Result = TypeVar("Result")


class RunFailed(RuntimeError):
    """A run has ended with an error. The message is the last line of its log."""


@dataclass(frozen=True)
class ScriptRun:
    """A run of a training script.

    Attributes:
        script: Name of the script, such as "glue".
        options: Options of the script by name.
        folder: Folder of the results. File of options and log are next to it, with the suffixes .json and .log.
        then: Runs that follow in the same place, such as tests of the trained model.
    """

    script: str
    options: Mapping[str, Any]
    folder: Path
    then: tuple[ScriptRun, ...] = ()


class Workers(Protocol):
    """Places where runs are executed.

    Attributes:
        count: Number of runs at a time.
    """

    count: int

    def run(self, run: ScriptRun) -> dict[str, Any]:
        """Execute or resume a run, and return its metrics. Threads may call it, one for each place.

        Raises:
            RunFailed: The run has ended with an error, or was killed too often.
            CancelledError: The workers were closed.
        """

    def close(self) -> None:
        """End all runs that are being executed."""


def run_in_process(run: ScriptRun, environment: Environment, folder: str, stdin: int | None = None) -> dict[str, Any]:
    """Run or resume a script in a process, then the runs that follow it, and return the metrics of the first.

    Args:
        run: The run.
        environment: Variables to add to the environment of the process.
        folder: Current folder of the process.
        stdin: The reading end of a pipe. The process ends when the writing end is closed. Defaults to a pipe whose
            writing end is closed when this process ends.

    Raises:
        RunFailed: The run has ended with an error, or was killed too often.
    """
    options = run.folder.absolute().with_name(f"{run.folder.name}.json")
    log = run.folder.absolute().with_name(f"{run.folder.name}.log")
    killed = 0
    while (metrics := finished(run.folder)) is None:
        atomic_write(options, json.dumps(run.options, indent=2, ensure_ascii=False, default=str) + "\n")
        words = ("train", run.script, str(options))
        code = _run_process(words, log, environment, folder, stdin)
        if code < 0:
            killed += 1
            reason = f"its process was killed by {signal.Signals(-code).name}"
            if killed > RETRIES:
                raise RunFailed(f"{reason}, for the {killed}th time ({log})")
            logger.warning("%s: %s. Resuming in a new process.", run.folder, reason)
        elif code or finished(run.folder) is None:
            raise RunFailed(f"{_last_line(log)} ({log})")
    for follower in run.then:
        run_in_process(follower, environment, folder, stdin)
    return metrics


def _run_process(words: Iterable[str], log: Path, environment: Environment, folder: str, stdin: int | None) -> int:
    """Run `hf-localattn` in a process, with all output in the log, and return its exit code."""
    # The process finds the modules that this one finds, from any folder.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    variables = {**os.environ, "PYTHONPATH": path, **environment, ENDS_WITH_STDIN: "1"}
    command = [*PYTHON, "-c", COMMAND, *words]
    with log.open("a") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=variables,
            start_new_session=True,  # Ctrl-C in the terminal interrupts this process alone
        )
    with process:
        return process.wait()


def _last_line(log: Path) -> str:
    """Return the error in a log, or else its last line. What was printed before an error may stand below it."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it left no message"])[-1]


class Machine:
    """Processes on this machine, each with a GPU or a share of the cores.

    Args:
        count: Number of processes at a time.
        use_cpu: Use no GPUs.
    """

    def __init__(self, count: int, use_cpu: bool):
        self.count = count
        self.environments = queue.SimpleQueue[Environment]()
        for index in range(count):
            self.environments.put(_environment(index, count, use_cpu))
        self.folder = os.getcwd()
        self.is_closed = False
        self.reader, self.writer = os.pipe()  # the operating system closes the writer if this process is killed

    def run(self, run: ScriptRun) -> dict[str, Any]:
        environment = self.environments.get()
        try:
            if self.is_closed:
                raise CancelledError
            return run_in_process(run, environment, self.folder, self.reader)
        except RunFailed:
            if self.is_closed:
                raise CancelledError from None
            raise
        finally:
            self.environments.put(environment)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        os.close(self.writer)
        free = [self.environments.get() for _ in range(self.count)]  # all runs have ended
        os.close(self.reader)
        for environment in free:
            self.environments.put(environment)


def _environment(index: int, count: int, use_cpu: bool) -> Environment:
    """Return the variables of one of several processes."""
    environment: Environment = {}
    if count > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(max(1, cores // count)))
    gpu_count = 0 if use_cpu else torch.cuda.device_count()
    if gpu_count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpu_count)))
        gpus = visible.split(",")[:gpu_count]
        environment["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]
    return environment


@contextmanager
def open_workers(count: int = 1, ray_address: str | None = None, *, use_cpu: bool = False) -> Iterator[Workers]:
    """Open workers, and end their runs when the block ends.

    Args:
        count: Number of runs at a time. On a cluster, 1 stands for its number of GPUs, or of cores without GPUs.
        ray_address: "auto" for the Ray cluster of this machine, HOST:PORT, or "local" for a new one that ends with
            this process. Defaults to processes on this machine.
        use_cpu: Use no GPUs.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: There is no cluster at the address.
    """
    workers: Workers
    if ray_address is None:
        workers = Machine(count, use_cpu)
    else:
        workers = Cluster(run_in_process, count, ray_address, retries=RETRIES, use_cpu=use_cpu)
    try:
        yield workers
    finally:
        workers.close()


def in_parallel(
    function: Callable[[Item], Result], items: Iterable[Item], workers: Workers
) -> Generator[tuple[Item, Result | RunFailed], None, None]:
    """Call a function, which executes one run, for each item in threads.

    Yield each item with the result or the `RunFailed` error, in the order in which the calls end. No other call begins
    when the generator is closed.
    """
    pool = ThreadPoolExecutor(workers.count)
    try:
        futures = {pool.submit(function, item): item for item in items}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except RunFailed as error:
                yield futures[future], error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_all(
    runs: Iterable[ScriptRun], count: int = 1, ray_address: str | None = None, *, use_cpu: bool = False
) -> Generator[tuple[ScriptRun, dict[str, Any] | RunFailed], None, None]:
    """Execute runs, and yield each with its metrics or its error, in the order in which they end.

    The arguments are those of `open_workers`. All runs end when the generator is closed.
    """
    with open_workers(count, ray_address, use_cpu=use_cpu) as workers:
        yield from in_parallel(workers.run, runs, workers)
