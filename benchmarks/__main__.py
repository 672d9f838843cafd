"""Run benchmarks, print their ratios and targets, and write the results as JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks import cases  # noqa: F401 (registers the cases)
from benchmarks.measure import environment, measure
from benchmarks.registry import CASES, MEASURED, Case
from hf_localattn.files import atomic_write

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help=f"default: all of {', '.join(CASES)}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the result files")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if unknown := set(arguments.names) - set(CASES):
        parser.error(f"unknown case {', '.join(sorted(unknown))}: choose from {', '.join(CASES)}")

    torch.set_num_threads(arguments.threads)
    wrong = []
    for name in arguments.names or CASES:
        try:
            result = run(CASES[name], device, arguments.repeats)
        except AssertionError as error:
            wrong.append(name)
            print(f"\n{name}: not measured, because the results are wrong. {error}", flush=True)
            continue
        print(report(CASES[name], result), flush=True)
        path = arguments.output / f"{name}--{place(device, arguments.threads)}.json"
        atomic_write(path, json.dumps(result, indent=2) + "\n")
    if wrong:
        sys.exit(f"wrong results: {', '.join(wrong)}")


def place(device: torch.device, threads: int) -> str:
    """Return the part of a file name that names the device: `cpu-2-threads`, or the name of a GPU."""
    if device.type == "cuda":
        return "cuda-" + re.sub(r"\W+", "-", torch.cuda.get_device_name(device).lower())
    return f"{device.type}-{threads}-threads"


def run(case: Case, device: torch.device, repeats: int) -> dict[str, Any]:
    """Measure a case, and return the results with the environment.

    Raises:
        AssertionError: The variants do not compute the same.
    """
    if case.check is not None:
        case.check(device)
    result = {"case": case.name, "what": case.what, "environment": environment(device)}
    result["variants"] = measure(case.variants(device, MEASURED), device, repeats)
    if case.bounds is not None:
        result["bounds"] = case.bounds(device)
        least = max(result["bounds"].values())
        for measured in result["variants"].values():
            measured["share_of_bound"] = round(least / min(measured["seconds"]), 3)
    return result


def report(case: Case, result: dict[str, Any]) -> str:
    """Return the results of a case as a table with its targets."""
    lines = [f"\n{case.name}: {case.what}", f"{'':20}{'seconds':>10}{'time':>8}{'aim':>8}{'memory':>9}{'aim':>8}"]
    for name, measured in result["variants"].items():
        aims = (case.time_targets.get(name), case.memory_targets.get(name))
        time_aim, memory_aim = (f"{aim:.2f}" if aim else "" for aim in aims)
        lines.append(
            f"{name:20}{min(measured['seconds']):10.4f}{measured['time_ratio']:8.3f}{time_aim:>8}"
            f"{measured['memory_ratio']:9.3f}{memory_aim:>8}"
        )
    for limit, seconds in result.get("bounds", {}).items():
        lines.append(f"at least {seconds:.4f} seconds for {limit}")
    lines += [
        f"{name}: {one['share_of_bound']:.0%} of the bound"
        for name, one in result["variants"].items()
        if "bounds" in result
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
