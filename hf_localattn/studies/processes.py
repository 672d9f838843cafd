"""Runs of the training scripts in processes: a run is a script with a file of options.

A run that is finished is not run again, and one that was killed resumes from its last checkpoint. Processes run on
this machine, on one GPU each or on a share of its cores, or on a Ray cluster.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from hf_localattn.extras import import_extra
from hf_localattn.files import UNFINISHED, atomic_write
from hf_localattn.tasks import TASKS

logger = logging.getLogger(__name__)

RETRIES = 3
"""Maximum number of restarts of a run whose process was killed."""


class RunFailed(RuntimeError):
    """A run has ended with an error. The message is the last line of its log."""


@dataclass(frozen=True)
class ScriptRun:
    """A run of a training script.

    Attributes:
        task: name of the script's task in `hf_localattn.tasks.TASKS`.
        options: options of the script by name.
        folder: folder of the results. File of options and log are next to it, with the suffixes .json and .log.
        then: runs that follow in the same place, such as tests of the trained model.
    """

    task: str
    options: Mapping[str, Any]
    folder: Path
    then: tuple[ScriptRun, ...] = ()


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the metrics of a finished run, or None."""
    path = folder / "all_results.json"
    if (folder / UNFINISHED).is_file() or not path.is_file():
        return None
    metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return metrics


def run_script(
    run: ScriptRun,
    environment: Mapping[str, str],
    folder: str,
    start: Callable[[BaseProcess], None] = BaseProcess.start,
) -> dict[str, Any]:
    """Run or resume a training script in a process, then the runs that follow it, and return its metrics.

    Args:
        run: the run.
        environment: environment variables of the process, in addition to those of this process.
        folder: current folder of the process, for relative paths.
        start: function that starts the process.

    Raises:
        RunFailed: the script has ended with an error, or its process was killed too often.
    """
    metrics = finished(run.folder)
    metrics = _run_process(run, environment, folder, start) if metrics is None else metrics
    for follower in run.then:
        run_script(follower, environment, folder, start)
    return metrics


def _run_process(
    run: ScriptRun, environment: Mapping[str, str], folder: str, start: Callable[[BaseProcess], None]
) -> dict[str, Any]:
    options, log = (run.folder.absolute().with_name(f"{run.folder.name}.{suffix}") for suffix in ("json", "log"))
    atomic_write(options, json.dumps(run.options, indent=2, ensure_ascii=False, default=str) + "\n")
    context = start_server()
    for attempt in range(1 + RETRIES):
        process = context.Process(target=_execute, args=(run.task, str(options), str(log), dict(environment), folder))
        with _without_main():
            start(process)
        process.join()
        code = process.exitcode or 0
        if code == 0 and (metrics := finished(run.folder)) is not None:
            return metrics
        if code >= 0:
            raise RunFailed(f"{_last_line(log)} ({log})")
        end = f"its process was killed by {signal.Signals(-code).name}"
        if attempt < RETRIES:
            logger.warning("%s: %s. Resuming in a new process.", run.folder, end)
    raise RunFailed(f"{end}, for the {1 + RETRIES}th time ({log})")


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the program that this process runs: the started process would import it, and run it a second time."""
    with _HIDING:
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = program


_HIDING = threading.Lock()


def start_server() -> Any:
    """Start the server of processes. It imports torch once; a new Python for each run would take seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hf_localattn.studies.command"])
    forkserver.ensure_running()
    return context


def _execute(task: str, options: str, log: str, environment: dict[str, str], folder: str) -> None:
    """Execute a training script in this process, which ends when its parent ends. All output goes to the log."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)  # as safe as a kill, because files are written whole

    threading.Thread(target=watch, daemon=True).start()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    if "OMP_NUM_THREADS" in environment:
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))  # torch has read the variable before
    os.chdir(folder)
    from hf_localattn.studies.command import run_script

    run_script(TASKS[task], [options])


def _last_line(log: Path) -> str:
    """Return the last line of a log, which names the error."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "it has ended without a message"


class Machine:
    """Processes on this machine, each on one GPU, or on a share of the cores if there are no GPUs.

    Args:
        count: number of runs at a time.
        use_cpu: use no GPUs.
    """

    def __init__(self, count: int, *, use_cpu: bool = False):
        self.count = count
        gpus = [] if use_cpu else visible_gpus()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = {} if count == 1 else {"OMP_NUM_THREADS": str(max(1, cores // count))}
        self.environments: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        for number in range(count):
            own = {"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {}
            self.environments.put({**threads, **_threads_given(), **own})
        if 0 < len(gpus) < count:
            logger.warning(
                "--workers %d share %d GPUs. If their memory is too small, give as many workers as GPUs.",
                *(count, len(gpus)),
            )
        self.pool = ThreadPoolExecutor(count)
        start_server()  # it imports while this process checks arguments and data
        self.processes: list[BaseProcess] = []
        self.is_stopped = threading.Event()

    def submit(self, run: ScriptRun) -> Future[dict[str, Any]]:
        """Start a run."""
        return self.pool.submit(self._run, run)

    def _run(self, run: ScriptRun) -> dict[str, Any]:
        environment = self.environments.get()
        try:
            return run_script(run, environment, os.getcwd(), self._start)
        finally:
            self.environments.put(environment)

    def _start(self, process: BaseProcess) -> None:
        if self.is_stopped.is_set():
            raise RunFailed("it was stopped")
        process.start()
        self.processes.append(process)

    def stop(self) -> None:
        """Kill all processes. Their runs can be resumed."""
        self.is_stopped.set()
        for process in self.processes:
            with suppress(ValueError, OSError):
                process.kill()
        self.pool.shutdown(cancel_futures=True)


class RayCluster:
    """Processes on a Ray cluster, each on one GPU, or on one core if the cluster has no GPUs.

    Output folder, data, models and this package must be at the same paths on all nodes. Ray repeats the runs of a node
    that is lost.

    Args:
        address: "auto" for the cluster of this machine, HOST:PORT, or "local" for a new cluster that ends with this
            process.
        count: number of runs at a time. Defaults to the number of GPUs, or of cores if there are no GPUs.
        use_cpu: use no GPUs.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """

    def __init__(self, address: str, count: int | None = None, *, use_cpu: bool = False):
        self.ray = import_extra("ray", "cluster", "--ray_address")
        if not self.ray.is_initialized():
            environment = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), **_threads_given()}
            self.ray.init(
                address=address,
                runtime_env={"env_vars": environment},
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        resources = self.ray.cluster_resources()
        gpus = 0 if use_cpu else int(resources.get("GPU", 0))
        self.count = count or gpus or max(1, int(resources.get("CPU", 1)))
        remote = self.ray.remote(num_gpus=min(1, gpus), num_cpus=0 if gpus else 1, max_retries=RETRIES)
        self.task = remote(run_script)
        self.references: list[Any] = []
        logger.info("Running %d runs at a time on a Ray cluster with %d GPUs.", self.count, gpus)

    def submit(self, run: ScriptRun) -> Future[dict[str, Any]]:
        """Start a run."""
        self.references.append(self.task.remote(run, _threads_given(), os.getcwd()))
        future: Future[dict[str, Any]] = self.references[-1].future()
        return future

    def stop(self) -> None:
        """Cancel all runs."""
        for reference in self.references:
            self.ray.cancel(reference, force=True)


def machine_of(workers: int, ray_address: str | None, *, use_cpu: bool = False) -> Machine | RayCluster:
    """Return the machine for `--workers` and `--ray_address`."""
    if ray_address is not None:
        return RayCluster(ray_address, None if workers == 1 else workers, use_cpu=use_cpu)
    return Machine(workers, use_cpu=use_cpu)


def run_all(
    runs: Iterable[ScriptRun], machine: Machine | RayCluster
) -> Iterator[tuple[ScriptRun, dict[str, Any] | RunFailed]]:
    """Execute runs, and yield each with its metrics or its error, in the order in which they end.

    The next run is taken only when it can start, because a search chooses it by the scores so far.
    """
    source, running = iter(runs), dict[Future[dict[str, Any]], ScriptRun]()
    try:
        while True:
            while len(running) < machine.count and (run := next(source, None)) is not None:
                running[machine.submit(run)] = run
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                run = running.pop(future)
                try:
                    yield run, future.result()
                except RunFailed as error:  # Ray raises an error that is one of this type, too
                    yield run, error
    finally:
        machine.stop()


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, named as in `CUDA_VISIBLE_DEVICES`."""
    chosen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (chosen or [str(number) for number in range(torch.cuda.device_count())])[: torch.cuda.device_count()]


def _threads_given() -> dict[str, str]:
    return {"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]} if "OMP_NUM_THREADS" in os.environ else {}
