"""Trials on a Ray cluster (`--ray_address`) with a shared file system. Ray handles retries and lost nodes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from hf_localattn.extras import import_extra
from hf_localattn.studies.executors import (
    RETRIES,
    Job,
    Outcome,
    TrialFailed,
    check_elsewhere,
    outcome_of,
    reason_of,
)
from hf_localattn.studies.worker import answer

logger = logging.getLogger(__name__)


class RayCluster:
    """Runs jobs as Ray tasks, each on one GPU, or on one core if the cluster has no GPUs.

    If a node is lost, Ray restarts its tasks. They resume from the last checkpoint in the folder of the trial. Output
    folder, data, models and this package must be at the same paths on all nodes.

    Args:
        address: "auto" for the cluster of this machine, HOST:PORT, or "local" for a new cluster that ends with this
            process.
        count: number of tasks at a time. Defaults to the cluster's number of GPUs, or of cores if it has no GPUs.
        use_cpu: use no GPUs.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """

    def __init__(self, address: str, count: int | None = None, *, use_cpu: bool = False):
        self.ray = import_extra("ray", "cluster", "--ray_address")
        if not self.ray.is_initialized():
            environment = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
            if threads := os.environ.get("OMP_NUM_THREADS"):
                environment["OMP_NUM_THREADS"] = threads
            self.ray.init(
                address=address,
                runtime_env={"env_vars": environment},
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        resources = self.ray.cluster_resources()
        gpus = 0 if use_cpu else int(resources.get("GPU", 0))
        self.count = count or gpus or max(1, int(resources.get("CPU", 1)))
        self.task = self.ray.remote(num_gpus=min(1, gpus), num_cpus=0 if gpus else 1, max_retries=RETRIES)(run_line)
        logger.info("Running %d trials at a time on a Ray cluster with %d GPUs.", self.count, gpus)

    def check(self, job: Job) -> None:
        """Prepare a job in this process, to raise its errors early."""
        check_elsewhere(job)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Run `count` jobs at a time."""
        source, running = iter(jobs), dict[Any, Job]()
        try:
            while True:
                while len(running) < self.count and (job := next(source, None)) is not None:
                    running[self.task.remote(job.to_json(), os.getcwd())] = job
                if not running:
                    return
                for done in self.ray.wait(list(running))[0]:
                    job = running.pop(done)
                    try:
                        yield outcome_of(job, self.ray.get(done), "see Ray's logs of the task")
                    except self.ray.exceptions.RayError as error:
                        yield Outcome(job, {}, TrialFailed(reason_of(error)))
        finally:
            for task in running:
                self.ray.cancel(task, force=True)


def run_line(line: str, folder: str) -> dict[str, Any]:
    """Run a job in a Ray process.

    Args:
        line: the job, written by `Job.to_json`.
        folder: the current folder of the command, for relative paths.
    """
    os.chdir(folder)
    return answer(line)
