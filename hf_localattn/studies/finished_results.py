"""Finished results to compare: output folders of the scripts, and rows of reproduced tables."""

from __future__ import annotations

import glob
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_localattn.errors import join_names
from hf_localattn.hub import TrainingRecord
from hf_localattn.parsing import read_json
from hf_localattn.studies.comparison import Kept
from hf_localattn.studies.cross_validation import RESULTS as FOLDS
from hf_localattn.studies.results import entry
from hf_localattn.training.example_scores import read_example_scores
from hf_localattn.training.run_record import NO_SCORES

ALL = "all_results.json"


@dataclass
class Result:
    """Runs of one setting with several seeds, or the folds of a cross-validation.

    Attributes:
        name: name as the user gave it.
        folds: number of folds, or None for seeds.
        metrics: metrics of the runs, by seed or by number of the fold.
        kept: data and scores of examples of the runs.
    """

    name: str
    folds: int | None = None
    metrics: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    kept: dict[int, Kept] = field(default_factory=dict)

    def add(self, number: int, metrics: Mapping[str, Any], folder: Path | None, data: Mapping[str, Any]) -> None:
        """Add a run with its folder, if there is one.

        Raises:
            ValueError: there is a run with this number.
        """
        if number in self.metrics:
            raise ValueError(f"{self.name} has several runs with seed {number}: name each seed once.")
        examples, digests = ({}, {}) if folder is None else read_example_scores(folder)
        own = {_split(prefix): rows for prefix, rows in digests.items()}
        self.metrics[number] = metrics
        self.kept[number] = Kept({**own, **data}, examples)

    def scores(self, metric: str) -> dict[int, float]:
        """Return a score by number of the run. JSON has null for NaN."""
        found = {number: own[metric] for number, own in self.metrics.items() if metric in own}
        return {number: math.nan if value is None else float(value) for number, value in found.items()}

    @property
    def names(self) -> list[str]:
        """Names of the scores, without losses, times and counts."""
        known = dict.fromkeys(name for metrics in self.metrics.values() for name in metrics)
        return [
            name
            for name in known
            if name.startswith(("eval_", "predict_"))
            and not name.partition("@")[0].endswith((*NO_SCORES, "_loss", "_total", "_thresh"))
            and all(isinstance(metrics.get(name), int | float | None) for metrics in self.metrics.values())
        ]


def load_result(name: str) -> Result:
    """Read a result.

    Args:
        name: output folder of a script, or of one with `--num_folds`; a pattern of such folders of several seeds, such
            as `runs/cool-*`; or `TABLE.json:ROW` or `TABLE.json:ROW:TASK`.

    Raises:
        ValueError: the result is not finished, or not clear.
        OSError: a file cannot be read.
    """
    table, separator, row = name.partition(".json:")
    if separator:
        return _row_of_table(name, Path(f"{table}.json"), row)
    folders = [Path(name)] if Path(name).is_dir() else [Path(found) for found in sorted(glob.glob(name))]
    if not folders:
        raise ValueError(f"{name} is no folder, no pattern of folders and no TABLE.json:ROW. Check the name.")
    result = Result(name)
    for folder in folders:
        if (folder / FOLDS).is_file() and len(folders) == 1:
            return _folds(name, folder)
        if not (folder / ALL).is_file():
            raise ValueError(
                f"{folder} has no {ALL}: give the output folder of a finished script. A table is given by"
                " TABLE.json:ROW, and several seeds by a pattern in quotes."
            )
        record = TrainingRecord.load(folder)
        result.add(0 if record is None else record.seed or 0, read_json(folder / ALL), folder, {})
    return result


def _folds(name: str, folder: Path) -> Result:
    path = folder / FOLDS
    found = read_json(path)
    settings = entry(found, "settings", dict, path)
    partition = settings.get("data_seed", settings.get("seed"))
    folds, count = entry(found, "folds", list, path), entry(settings, "num_folds", int, path)
    if len(folds) < count:
        raise ValueError(f"{path} has {len(folds)} of {count} folds: repeat the command of that run to finish it.")
    result = Result(name, folds=count)
    for number, metrics in enumerate(folds, start=1):
        result.add(number, metrics, folder / f"fold-{number}", {"seed of the folds": partition})
    return result


def _row_of_table(name: str, path: Path, row: str) -> Result:
    row, _, task = row.partition(":")
    runs = entry(read_json(path), "runs", list, path)
    if not (own := [run for run in runs if run["row"] == row]):
        raise ValueError(f"{path} has no run of a row {row!r}; its rows are {join_names(_unique(runs, 'row'))}.")
    tasks = _unique(own, "task")
    if task not in tasks and (task or len(tasks) > 1):
        raise ValueError(
            f"{name}: give one of the tasks of the row, {join_names(tasks)}, as in {path}:{row}:{tasks[0]}."
        )
    own = [run for run in own if run["task"] == (task or tasks[0])]
    is_fold = own[0].get("fold") is not None
    folds = own[0].get("folds")
    result = Result(name, folds=folds)
    for run in own:
        folder = path.parent / run["folder"] if "folder" in run else None
        result.add(run["fold"] if is_fold else run["seed"], run["metrics"], folder, run["data"])
    return result


def _unique(runs: list[Any], name: str) -> list[str]:
    return list(dict.fromkeys(run[name] for run in runs))


def _split(prefix: str) -> str:
    """Return the name that a table gives to the data of metrics with this prefix."""
    name, _, title = prefix.partition("@")
    return title or name.replace("eval", "validation").replace("predict", "test")
