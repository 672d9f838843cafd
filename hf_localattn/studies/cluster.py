"""Runs on a Ray cluster."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from hf_localattn.extras import import_extra


@contextmanager
def on_cluster(
    function: Callable[..., Any], workers: int, address: str, *, retries: int, use_cpu: bool
) -> Iterator[tuple[list[dict[str, str]], Callable[..., Future[Any]]]]:
    """Yield environments of processes, and a function that starts `function` in one. At the end kill them all.

    Ray repeats the runs of a node that is lost, up to `retries` times.
    """
    ray, references = import_extra("ray", "cluster", "--ray_address"), list[Any]()
    if not ray.is_initialized():
        variables = {name: value for name, value in os.environ.items() if name == "OMP_NUM_THREADS"}
        variables["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
        ray.init(address=address, runtime_env={"env_vars": variables}, **quiet)
    gpus = 0 if use_cpu else int(ray.cluster_resources().get("GPU", 0))
    count = workers if workers > 1 else gpus or max(1, int(ray.cluster_resources().get("CPU", 1)))
    remote = ray.remote(num_gpus=min(1, gpus), num_cpus=0 if gpus else 1, max_retries=retries)(function).remote

    def start(run: Any, environment: dict[str, str]) -> Future[Any]:
        references.append(remote(run, environment, os.getcwd()))
        future: Future[Any] = references[-1].future()
        return future

    try:
        yield [{} for _ in range(count)], start
    finally:
        for reference in references:
            ray.cancel(reference, force=True)
