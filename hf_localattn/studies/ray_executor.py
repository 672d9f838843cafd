"""Trials on a Ray cluster (`--ray_address`) with a shared file system; retries and lost nodes are Ray's part."""

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
    """Runs jobs as Ray tasks, each on one GPU, or on one core of a cluster without GPUs.

    A task whose node is lost is run again by Ray, and goes on from the last checkpoint in the folder of its trial. So
    output folder, data and models have to be at the same paths on all nodes, and so has this package.

    Args:
        address: "auto" for the cluster that this machine belongs to, HOST:PORT, or "local" for one that lives as long
            as this process.
        count: number of tasks at a time; by default that of the cluster's GPUs or cores.
        use_cpu: True to use no GPU.

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
        logger.info("A Ray cluster with %d GPUs runs %d trials at a time.", gpus, self.count)

    def check(self, job: Job) -> None:
        """Prepare a job here, and forget it."""
        check_elsewhere(job)

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Run as many jobs at a time as the cluster has room for."""
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
    """Run a job in a process of Ray.

    Args:
        line: the job, as `Job.to_json` writes it.
        folder: the current folder of the command, as paths may be relative.
    """
    os.chdir(folder)
    return answer(line)
