"""Time and peak memory of a step."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def measure(variants: dict[str, Callable[[], None]], device: torch.device, repeats: int) -> dict[str, dict[str, Any]]:
    """Measure variants in turn, so that a temporary slowdown of the machine affects all variants.

    Args:
        variants: Step of each variant by name. The first one is the peer.
        device: Device of the steps.
        repeats: Number of measured steps per variant, after a warm-up.

    Returns:
        For each variant, `seconds` of all repeats; `peak_bytes`, the additional memory that a step needs; and ratios
        to the peer. The time ratio compares the shortest times, because other processes can only add time.
    """
    results: dict[str, dict[str, Any]] = {}
    for name, step in variants.items():
        step()
        results[name] = {"seconds": [], "peak_bytes": peak_bytes(step, device)}
    for _ in range(repeats):
        for name, step in variants.items():
            results[name]["seconds"].append(seconds(step, device))
    peer = next(iter(results.values()))
    for result in results.values():
        result["time_ratio"] = round(min(result["seconds"]) / min(peer["seconds"]), 4)
        result["median_time_ratio"] = round(median(result["seconds"]) / median(peer["seconds"]), 4)
        result["memory_ratio"] = round(result["peak_bytes"] / max(peer["peak_bytes"], 1), 4)
        result["seconds"] = [round(one, 6) for one in result["seconds"]]
    return results


def seconds(step: Callable[[], None], device: torch.device) -> float:
    """Return the wall-clock seconds of one step, with the device synchronized before and after."""
    synchronize(device)
    start = time.perf_counter()
    step()
    synchronize(device)
    return time.perf_counter() - start


def peak_bytes(step: Callable[[], None], device: torch.device) -> int:
    """Return the additional peak memory of tensors in one step, in bytes."""
    if device.type == "cuda":
        synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        step()
        synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    held = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def synchronize(device: torch.device) -> None:
    """Wait for all work on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def environment(device: torch.device) -> dict[str, Any]:
    """Describe the environment of a result: date, hardware and versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{package: version(package) for package in ("torch", "transformers")},
    }


def processor() -> str:
    """Return the name of the CPU, if the system provides it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
