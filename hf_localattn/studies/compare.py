"""Comparison of two finished results, for `hf-localattn compare`: folders of the scripts, or rows of tables."""

from __future__ import annotations

import dataclasses
import glob
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_localattn.errors import join_names
from hf_localattn.parsing import read_json
from hf_localattn.studies.cross_validation import RESULTS as FOLDS
from hf_localattn.studies.processes import finished
from hf_localattn.studies.statistics import Comparison, compare_runs, format_interval, format_p, holm
from hf_localattn.studies.study import write_results
from hf_localattn.training.output_folder import RUN
from hf_localattn.training.run_record import NO_SCORES


@dataclass
class Result:
    """Runs of one setting with several seeds, or the folds of a cross-validation.

    Attributes:
        name: name as the user gave it.
        folds: number of folds, or None for seeds.
        metrics: metrics of the runs, by seed or by number of the fold.
        data: digests of the splits of the runs.
    """

    name: str
    folds: int | None = None
    metrics: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    data: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, number: int, metrics: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Add a run.

        Raises:
            ValueError: there is a run with this number.
        """
        if number in self.metrics:
            raise ValueError(f"{self.name} has several runs with seed {number}: name each seed once.")
        self.metrics[number], self.data[number] = metrics, data

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
        if (metrics := finished(folder)) is None:
            raise ValueError(
                f"{folder} is not the output folder of a finished run: repeat its command. A table is given by"
                " TABLE.json:ROW, and several seeds by a pattern in quotes."
            )
        arguments = read_json(folder / RUN) if (folder / RUN).is_file() else {}  # of a run without training
        result.add(arguments.get("seed", 0), metrics, digests_in(arguments))
    return result


def digests_in(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digests of the data that decide a score, from the arguments of a run."""
    return {name: arguments[name] for name in ("validation data", "test data") if name in arguments}


def _folds(name: str, folder: Path) -> Result:
    found = read_json(folder / FOLDS)
    settings, folds = found["settings"], found["folds"]
    if len(folds) < settings["num_folds"]:
        raise ValueError(
            f"{folder} has {len(folds)} of {settings['num_folds']} folds: repeat the command of that run to finish it."
        )
    result = Result(name, folds=settings["num_folds"])
    for number, metrics in enumerate(folds, start=1):
        path = folder / f"fold-{number}" / RUN
        result.add(number, metrics, digests_in(read_json(path)) if path.is_file() else {})
    return result


def _row_of_table(name: str, path: Path, row: str) -> Result:
    row, _, task = row.partition(":")
    runs = read_json(path)["runs"]
    if not (own := [run for run in runs if run["row"] == row]):
        raise ValueError(f"{path} has no run of a row {row!r}; its rows are {join_names(_unique(runs, 'row'))}.")
    tasks = _unique(own, "task")
    if task not in tasks and (task or len(tasks) > 1):
        raise ValueError(
            f"{name}: give one of the tasks of the row, {join_names(tasks)}, as in {path}:{row}:{tasks[0]}."
        )
    own = [run for run in own if run["task"] == (task or tasks[0])]
    result = Result(name, folds=own[0]["folds"])
    for run in own:
        result.add(run["run"], run["metrics"], run["data"])
    return result


def _unique(runs: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return list(dict.fromkeys(run[name] for run in runs))


def compare(first: str, second: str, metrics: Sequence[str] = (), output: Path | None = None) -> str:
    """Compare two results, and return the comparison as text.

    Args:
        first: a result, see `load_result`.
        second: the result that it is compared with.
        metrics: names of scores, such as "eval_f1"; by default all that both results have.
        output: JSON file for the comparison, *optional*.

    Raises:
        ValueError: the results cannot be compared: they have no common seed, other data, or a NaN score.
    """
    one, other = load_result(first), load_result(second)
    if one.folds != other.folds:
        kinds = " and ".join("seeds" if own.folds is None else f"{own.folds} folds" for own in (one, other))
        raise ValueError(f"The results are of {kinds}: compare seeds with seeds, or the same folds.")
    if not one.metrics.keys() & other.metrics.keys():
        numbers = [join_names(list(map(str, own.metrics))) for own in (one, other)]
        raise ValueError(
            f"{first} has the seeds {numbers[0]}, and {second} {numbers[1]}: runs are compared in pairs with the same"
            " seed. Train both with the same seeds."
        )
    common = [name for name in one.names if name in other.names]
    names = list(metrics) or common
    if missing := [name for name in names if name not in common]:
        raise ValueError(
            f"--metric {missing[0]}: not a score of both results. They share {join_names(common) or 'none'}."
        )
    if not names:
        raise ValueError(f"{first} and {second} have no score in common.")
    found = {
        name: compare_runs(one.scores(name), other.scores(name), one.data, other.data, folds=one.folds)
        for name in names
    }
    for name, comparison in found.items():
        if comparison.difference is None:
            raise ValueError(f"{name}: {comparison.remark}.")
    corrected = dict(zip(found, holm([comparison.p_value for comparison in found.values()]), strict=True))
    if output is not None:
        scores = {
            name: {**dataclasses.asdict(comparison), "corrected_p_value": corrected[name]}
            for name, comparison in found.items()
        }
        write_results(output, {"first": first, "second": second, "folds": one.folds, "scores": scores})
    return "\n".join(_lines(one, other, found, corrected))


def _lines(one: Result, other: Result, found: dict[str, Comparison], corrected: dict[str, float | None]) -> list[str]:
    lines = [f"A: {one.name}", f"B: {other.name}", ""]
    lines += ["| score | A | B | A - B | 95 % interval | corrected p (n) |", "|---|---|---|---|---|---|"]
    # Shares such as accuracies have small differences.
    for name, own in found.items():
        means = [statistics.fmean(result.scores(name).values()) for result in (one, other)]
        scale, unit = (100, " (%)") if max(map(abs, means)) <= 1 else (1, "")
        ends = None if own.interval is None else (scale * own.interval[0], scale * own.interval[1])
        assert own.difference is not None
        cells = [f"{name}{unit}", *(f"{scale * mean:.2f}" for mean in means), f"{scale * own.difference:+.2f}"]
        lines.append(
            f"| {' | '.join([*cells, format_interval(ends), f'{format_p(corrected[name])} ({own.pairs})'])} |"
        )
    remarks: dict[str, list[str]] = {}
    for name, own in found.items():
        if own.remark is not None:
            remarks.setdefault(own.remark, []).append(name)
    lines += ["", *(f"* {', '.join(names)}: {remark}." for remark, names in remarks.items())]
    kind = "folds, with Nadeau and Bengio's correction" if one.folds else "seeds"
    lines.append(f"* n is the number of pairs of {kind}; p is corrected for {len(found)} scores (Holm).")
    return lines
