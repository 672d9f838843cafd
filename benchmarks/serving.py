"""Scores, speed and size of a trained checkpoint as PyTorch model and as exported graphs.

`python -m benchmarks.serving CHECKPOINT TASK ARGUMENT ...` takes the arguments of the task's script that name the
data, such as `--validation_file test.jsonl`. The metrics are those of the script. A graph with 32-bit floats must have
the metrics of the PyTorch model, or no speed is reported.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import environment, seconds
from hf_localattn import OnnxModel
from hf_localattn.files import atomic_write
from hf_localattn.graphs import GRAPH
from hf_localattn.installed.exported import is_exported
from hf_localattn.names import read_config
from hf_localattn.serving.export import QUANTIZATIONS, export_checkpoint, quantize_graph
from hf_localattn.serving.validation import prepare_evaluation, score_validation
from hf_localattn.tasks import TASKS
from hf_localattn.training.prepare import Prepared
from hf_localattn.training.run import batches_of

CPU = torch.device("cpu")
PEER, FP32 = "PyTorch", "ONNX fp32"
QUANTIZED = {f"ONNX {name}": name for name in QUANTIZATIONS}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("checkpoint", help="folder of a trained checkpoint")
    parser.add_argument("task", choices=TASKS, help="name for the result")
    parser.add_argument("--name", help="name of the result; default: that of the folder")
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=8, help="number of batches that are timed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest difference of a score of two fp32 runs")
    parser.add_argument("--exports", type=Path, help="folder for the graphs, which a later call finds there")
    parser.add_argument("--result", type=Path, help="file to write the result to, as JSON")
    arguments, words = parser.parse_known_args()
    logging.getLogger("hf_localattn").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as scratch:
        content = read_config(arguments.checkpoint)
        prepared = prepare_evaluation(arguments.checkpoint, content, words, scratch)
        exported = {name: (arguments.exports or Path(scratch)) / name for name in (FP32, *QUANTIZED)}
        if not is_exported(exported[FP32]):
            export_checkpoint(arguments.checkpoint, exported[FP32])
        for name, quantize in QUANTIZED.items():
            if not is_exported(exported[name]):
                shutil.copytree(exported[FP32], exported[name])
                quantize_graph(exported[FP32] / GRAPH, exported[name] / GRAPH, quantize)
        result = compare(prepared, exported, arguments)
    print(json.dumps(result, indent=2))
    if arguments.result is not None:
        atomic_write(arguments.result, json.dumps(result, indent=2) + "\n")


def compare(prepared: Prepared, exported: dict[str, Path], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return scores, times and sizes of the PyTorch model and of exported folders.

    Raises:
        ValueError: A score of the fp32 graph differs from that of the PyTorch model.
    """
    model = prepared.model.eval()
    graphs = {name: OnnxModel.from_pretrained(folder) for name, folder in exported.items()}
    functions = {PEER: model, **graphs}
    scores = {name: score_validation(prepared, each, arguments.batch_size).scores for name, each in functions.items()}
    different = [
        name
        for name, value in scores[PEER].items()
        if not abs(value - scores[FP32][name]) <= arguments.tolerance * max(abs(value), 1)
    ]
    if different:
        raise ValueError(
            f"The graph has other scores than the model ({', '.join(different)}), so no speed is reported."
        )
    times = times_of(prepared, {PEER: model, "torch.compile": torch.compile(model, dynamic=True), **graphs}, arguments)
    weights = sum(one.numel() * one.element_size() for one in model.parameters())
    sizes = {PEER: weights, "torch.compile": weights}
    sizes |= {name: (folder / GRAPH).stat().st_size for name, folder in exported.items()}
    return {
        "name": arguments.name or Path(arguments.checkpoint).name,
        "task": arguments.task,
        "metric": next(name for name in prepared.evaluation.target.metrics if name != "loss"),
        "model": type(model).__name__,
        "rows": len(prepared.rows["validation"]),
        "environment": {**environment(CPU), "vnni": has_vnni(), "onnxruntime": version("onnxruntime")},
        "variants": {
            name: {"scores": scores.get(name), **time, "megabytes": round(sizes[name] / 1e6, 1)}
            for name, time in times.items()
        },
    }


@torch.no_grad()
def times_of(prepared: Prepared, models: dict[str, Any], arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the speed of each model on the same batches, from the shortest of its times. Models take turns."""
    loader = iter(batches_of(prepared, "validation", arguments.batch_size))
    names = models[FP32].graph.input_names
    batches = [{k: v for k, v in next(loader).items() if k in names} for _ in range(arguments.batches)]
    found: dict[str, list[float]] = {name: [] for name in models}

    def step(one: Any) -> None:
        for batch in batches:
            one(**batch)

    for one in models.values():
        step(one)
    for _ in range(arguments.repeats):
        for name, one in models.items():
            found[name].append(seconds(functools.partial(step, one), CPU))
    texts = sum(len(batch["input_ids"]) for batch in batches)
    return {
        name: {
            "texts_per_second": round(texts / min(own), 1),
            "speed_ratio": round(min(found[PEER]) / min(own), 3),
        }
        for name, own in found.items()
    }


def has_vnni() -> bool:
    """Return True if the processor multiplies 8-bit integers without a loss of precision or speed."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.is_file() and "vnni" in cpuinfo.read_text()


if __name__ == "__main__":
    main()
