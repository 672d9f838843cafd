"""Runs of the training scripts in processes. Each is `python -m hf_localattn train SCRIPT options.json`.

A run that is finished is not run again, and one that was killed resumes from its last checkpoint.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tqdm import tqdm

from hf_localattn.files import UNFINISHED, atomic_write
from hf_localattn.studies.cluster import on_cluster

logger = logging.getLogger(__name__)

RETRIES = 3
"""Maximum number of restarts of a run whose process was killed."""

Environment = dict[str, str]
Start = Callable[["ScriptRun", Environment], Future[Any]]

_starting = threading.Lock()


class RunFailed(RuntimeError):
    """A run has ended with an error. The message is the last line of its log."""


@dataclass(frozen=True)
class ScriptRun:
    """A run of a training script.

    Attributes:
        script: name of the script, such as "glue".
        options: options of the script by name.
        folder: folder of the results. File of options and log are next to it, with the suffixes .json and .log.
        then: runs that follow in the same place, such as tests of the trained model.
    """

    script: str
    options: Mapping[str, Any]
    folder: Path
    then: tuple[ScriptRun, ...] = ()


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the metrics of a finished run, or None."""
    path = folder / "all_results.json"
    is_finished = path.is_file() and not (folder / UNFINISHED).is_file()
    return json.loads(path.read_text(encoding="utf-8")) if is_finished else None


def run_script(run: ScriptRun, environment: Environment, folder: str, parent: Any = None) -> dict[str, Any]:
    """Run or resume a script in a process, then the runs that follow it. All end if the connection `parent` closes."""
    parent, _other_end = (parent, None) if parent else multiprocessing.Pipe(duplex=False)
    options, log = (run.folder.absolute().with_name(f"{run.folder.name}.{suffix}") for suffix in ("json", "log"))
    killed = 0
    while (metrics := finished(run.folder)) is None:
        atomic_write(options, json.dumps(run.options, indent=2, ensure_ascii=False, default=str) + "\n")
        code = _run_process(run.script, str(options), str(log), dict(environment), folder, parent)
        if code < 0:
            killed, end = killed + 1, f"its process was killed by {signal.Signals(-code).name}"
            if killed > RETRIES:
                raise RunFailed(f"{end}, for the {killed}th time ({log})")
            logger.warning("%s: %s. Resuming in a new process.", run.folder, end)
        elif code or finished(run.folder) is None:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it left no message"]
            raise RunFailed(f"{lines[-1].removeprefix('error: ')} ({log})")
    for follower in run.then:
        run_script(follower, environment, folder, parent)
    return metrics


def start_server() -> Any:
    """Start the server that forks the processes, which imports torch once, and return its context."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hf_localattn.cli", "hf_localattn.studies.command"])
    resource_tracker.ensure_running()  # first, because it unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C would print where the imports are
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _run_process(*arguments: Any) -> int:
    """Call `_execute` in a process, and return its exit code."""
    process = start_server().Process(target=_execute, args=arguments)
    with _starting:  # a process imports the main program of its parent, which would run a second time
        program, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            process.start()
        finally:
            sys.modules["__main__"] = program
    connection.wait([process.sentinel])
    with _starting:  # a start reads the exit codes of all processes, and each can be read once
        process.join()
    return process.exitcode or 0


def _execute(script: str, options: str, log: str, environment: Environment, folder: str, parent: Any) -> None:
    """Execute a training script in this process. All output goes to the log."""

    def watch() -> None:
        with suppress(EOFError):
            parent.recv()
        os._exit(1)  # as safe as a kill, because files are written whole

    threading.Thread(target=watch, daemon=True).start()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    if "OMP_NUM_THREADS" in environment:
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))  # torch has read the variable before
    os.chdir(folder)
    tqdm.set_lock(threading.RLock())  # tqdm's own has a semaphore, which `watch` would leave with a warning
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # which the server has blocked
    sys.argv[1:] = ["train", script, options]
    runpy.run_module("hf_localattn", run_name="__main__", alter_sys=True)


@contextmanager
def _machine(workers: int, use_cpu: bool) -> Iterator[tuple[list[Environment], Start]]:
    """Yield environments of processes on this machine, and a function that starts a run. At the end kill them all."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    gpus = [] if use_cpu else names.split(",")[: torch.cuda.device_count()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores // workers)))
    environments: list[Environment] = [{"OMP_NUM_THREADS": threads} if workers > 1 else {} for _ in range(workers)]
    for number, environment in enumerate(environments if gpus else ()):
        environment["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    reader, writer = multiprocessing.Pipe(duplex=False)
    with ThreadPoolExecutor(workers) as pool, closing(writer):
        folder = os.getcwd()
        yield environments, lambda run, environment: pool.submit(run_script, run, environment, folder, reader)


def run_all(
    runs: Iterable[ScriptRun], workers: int = 1, ray_address: str | None = None, *, use_cpu: bool = False
) -> Iterator[tuple[ScriptRun, dict[str, Any] | RunFailed]]:
    """Execute runs, and yield each with its metrics or its error, in the order in which they end.

    The next run is taken only when it can start, because a search chooses it by the scores so far.

    Args:
        runs: the runs.
        workers: number of runs at a time. On a cluster, 1 stands for its number of GPUs, or of cores without GPUs.
        ray_address: "auto" for the Ray cluster of this machine, HOST:PORT, or "local" for a new one that ends with
            this process. Defaults to processes on this machine.
        use_cpu: use no GPUs.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """
    if ray_address is None:
        place = _machine(workers, use_cpu)
    else:
        place = on_cluster(run_script, workers, ray_address, retries=RETRIES, use_cpu=use_cpu)
    source, running = iter(runs), dict[Future[Any], tuple[ScriptRun, Environment]]()
    with place as (free, start):
        while True:
            while free and (run := next(source, None)) is not None:
                environment = free.pop(0)
                running[start(run, environment)] = run, environment
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                run, environment = running.pop(future)
                free.append(environment)
                try:
                    yield run, future.result()
                except RunFailed as error:
                    yield run, getattr(error, "cause", error)  # Ray's error has a traceback as its text
