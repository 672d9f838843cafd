"""Runs on a Ray cluster."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from hf_localattn.extras import import_extra


class Cluster:
    """Processes on a Ray cluster, which repeats the runs of a node that is lost.

    Args:
        function: Function of a run, variables of its environment, and the current folder, which executes the run.
        count: Number of runs at a time; 1 stands for the number of GPUs, or of cores without GPUs.
        address: Address of the cluster.
        retries: How often a run is repeated.
        use_cpu: Use no GPUs.
    """

    def __init__(self, function: Callable[..., Any], count: int, address: str, *, retries: int, use_cpu: bool):
        self.ray = import_extra("ray", "cluster", "--ray_address")
        if not self.ray.is_initialized():
            _connect(self.ray, address)
        resources = self.ray.cluster_resources()
        gpu_count = 0 if use_cpu else int(resources.get("GPU", 0))
        core_count = max(1, int(resources.get("CPU", 1)))
        self.count = count if count > 1 else gpu_count or core_count
        needs = {"num_gpus": 1, "num_cpus": 0} if gpu_count else {"num_gpus": 0, "num_cpus": 1}
        self.remote = self.ray.remote(**needs, max_retries=retries)(function).remote
        self.folder = os.getcwd()
        self.references: list[Any] = []

    def run(self, run: Any) -> Any:
        reference = self.remote(run, {}, self.folder)
        self.references.append(reference)
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the text of Ray's own error is a traceback

    def close(self) -> None:
        for reference in self.references:
            self.ray.cancel(reference, force=True)


def _connect(ray: Any, address: str) -> None:
    variables = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    if "OMP_NUM_THREADS" in os.environ:
        variables["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
    runtime = {"env_vars": variables}
    ray.init(address=address, runtime_env=runtime, log_to_driver=False, logging_level=logging.WARNING)
