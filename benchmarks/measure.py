"""Seconds and peak memory of a step."""

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
    """Run all variants in turn, so that a slow moment of the machine hits all of them alike.

    Returns:
        For each variant its seconds (one a repeat, after a warm-up), `peak_bytes`, what one step holds at its peak
        beyond what was there before it, and both as ratios to the first variant: the best second of each, as whatever
        else the machine does only ever adds time.
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
    """Wall-clock seconds of one step, the device's queue emptied before and after."""
    synchronize(device)
    start = time.perf_counter()
    step()
    synchronize(device)
    return time.perf_counter() - start


def peak_bytes(step: Callable[[], None], device: torch.device) -> int:
    """Bytes of tensors at the highest point of one step, beyond those there before it."""
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
    """Wait for what has been queued on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def environment(device: torch.device) -> dict[str, Any]:
    """Return what a result depends on besides the code."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{package: version(package) for package in ("torch", "transformers")},
    }


def processor() -> str:
    """The CPU's name, as far as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
