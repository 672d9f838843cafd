"""Results of finished runs, as their output folders and the tables of `reproduction` have them.

No module that this one needs imports torch.
"""

from __future__ import annotations

import glob
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_localattn.errors import join_names
from hf_localattn.files import UNFINISHED, atomic_write
from hf_localattn.names import NO_SCORES, RESULTS, RIVAL_SCORES, read_run
from hf_localattn.parsing import format_json, read_json

FOLDS = "folds.json"
"""File of a cross-validation with its results."""

SEEDS = "seeds.json"
"""File of the runs with several seeds, with their results."""


@dataclass
class Result:
    """Runs of one setting with several seeds, or the folds of a cross-validation.

    Attributes:
        folds: Number of folds, or None for seeds.
        metrics: Metrics of the runs, by seed or by index of the fold.
        data: Digests of the splits that decide the scores of the runs.
        unfinished: Folders of runs that are left out.
        overlap: Result of `overlap_of_folds`; 0 for seeds.
    """

    folds: int | None
    metrics: Mapping[int, Mapping[str, Any]]
    data: Mapping[int, Mapping[str, Any]]
    unfinished: tuple[Path, ...] = ()
    overlap: float = 0.0

    def scores(self, metric: str) -> dict[int, float]:
        """Return a score by index of the run. JSON has null for NaN."""
        scores: dict[int, float] = {}
        for index, metrics in self.metrics.items():
            if metric in metrics:
                value = metrics[metric]
                scores[index] = math.nan if value is None else float(value)
        return scores

    @property
    def kind(self) -> str:
        return "seeds" if self.folds is None else f"{self.folds} folds"

    @property
    def names(self) -> list[str]:
        """Names of the scores, without losses, times, counts and scores of rivals."""
        names = dict.fromkeys(itertools.chain.from_iterable(self.metrics.values()))
        return list(filter(self._is_score, names))

    def _is_score(self, name: str) -> bool:
        base = name.partition("@")[0]
        if not base.startswith(("eval_", "predict_")):
            return False
        if base.endswith((*NO_SCORES, *RIVAL_SCORES, "_loss", "_total", "_thresh")):
            return False
        return all(isinstance(metrics.get(name), int | float | None) for metrics in self.metrics.values())


def overlap_of_folds(count: int, options: Mapping[str, Any]) -> float:
    """Return the number of held-out rows of a fold that are scored, divided by the number of training rows.

    Test and validation rows are held out if the options name no file of them. With both files all folds have the same
    rows, differ in their seed alone, and the result is 0.

    Example:
        >>> overlap_of_folds(5, {"test_file": "test.csv"}), overlap_of_folds(5, {})
        (0.25, 0.3333333333333333)
    """
    held_out = [part for part in ("test", "validation") if options.get(f"{part}_file") is None]
    if not held_out:
        return 0.0
    share = 1 / count
    train = 1 - share
    if len(held_out) > 1:
        train *= 1 - 1 / max(count - 1, 2)  # as `hf_localattn.data.folds.split_rows` divides the rest
    return share / train


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the metrics of a finished run, or None. A score that is null is NaN."""
    path = folder / RESULTS
    if not path.is_file() or (folder / UNFINISHED).is_file():
        return None
    metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write results as JSON."""
    atomic_write(path, format_json(results, indent=2, ensure_ascii=False) + "\n")


def load_result(name: str) -> Result:
    """Read a result, as it is named for `compare`."""
    table, is_table, row = name.partition(".json:")
    if is_table:
        row, _, task = row.partition(":")
        return _row_of_table(f"{table}.json", row, task)
    folders = [Path(name)] if Path(name).is_dir() else sorted(filter(Path.is_dir, map(Path, glob.glob(name))))
    if not folders:
        raise ValueError(f"{name} is no folder, no pattern of folders and no TABLE.json:ROW. Check the name.")
    first = folders[0]
    if len(folders) > 1:
        return _result_of_seeds(name, folders)
    if (first / FOLDS).is_file():
        return _result_of_folds(first)
    if (first / SEEDS).is_file():
        seeds = read_json(first / SEEDS)["seeds"]
        folders = [first / f"seed-{seed}" for seed in seeds]
    return _result_of_seeds(name, folders)


def _result_of_folds(folder: Path) -> Result:
    settings = read_json(folder / FOLDS)["settings"]
    count = settings["num_folds"]
    folders = {index: folder / f"fold-{index}" for index in range(1, count + 1)}
    metrics: dict[int, Mapping[str, Any]] = {}
    for index, path in folders.items():
        scores = finished(path)
        if scores is None:
            raise ValueError(f"{path} is not the output folder of a finished run: repeat the command of the folds.")
        metrics[index] = scores
    data = {index: _data_of(read_run(path)) for index, path in folders.items()}
    return Result(count, metrics, data, overlap=overlap_of_folds(count, settings))


def _result_of_seeds(name: str, folders: Iterable[Path]) -> Result:
    metrics: dict[int, Any] = {}
    data: dict[int, Any] = {}
    unfinished: list[Path] = []
    for folder in folders:
        if (folder / FOLDS).is_file() or (folder / SEEDS).is_file():
            raise ValueError(f"{folder} has several runs: compare it by itself, not in a pattern.")
        scores = finished(folder)
        if scores is None:
            unfinished.append(folder)
            continue
        arguments = read_run(folder)
        seed = arguments.get("seed", 0)
        if seed in metrics:
            raise ValueError(f"{name} has several runs with seed {seed}: name each seed once.")
        metrics[seed] = scores
        data[seed] = _data_of(arguments)
    if not metrics:
        raise ValueError(
            f"{name} is not the output folder of a finished run: repeat its command. A table is given by"
            " TABLE.json:ROW, and several seeds by a pattern in quotes."
        )
    return Result(None, metrics, data, tuple(unfinished))


def _data_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {split: arguments[split] for split in ("validation data", "test data") if split in arguments}


def _row_of_table(path: str, row: str, task: str) -> Result:
    all_runs = read_json(path)["runs"]
    runs = [run for run in all_runs if run["row"] == row and task in ("", run["task"])]
    if len({run["task"] for run in runs}) != 1:
        names = dict.fromkeys(f"{run['row']}:{run['task']}" for run in all_runs)
        raise ValueError(f"{path}: give one row and task of {join_names(list(names))}, as in {path}:ROW:TASK.")
    metrics = {run["run"]: run["metrics"] for run in runs}
    data = {run["run"]: run["data"] for run in runs}
    return Result(runs[0]["folds"], metrics, data, overlap=runs[0].get("overlap", 0.0))
