"""Comparison of two finished results: intervals, paired tests, Holm's correction."""

from __future__ import annotations

import glob
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hf_localattn.errors import join_names
from hf_localattn.extras import LazyExtra
from hf_localattn.parsing import read_json
from hf_localattn.studies.processes import finished
from hf_localattn.studies.script_command import FOLDS, write_results
from hf_localattn.training.output_folder import RUN
from hf_localattn.training.run_record import NO_SCORES

stats = LazyExtra("scipy.stats", "train", "A test of significance")

SAME = 1e-9
"""Differences that vary less than this, relative to their size, are equal except for rounding."""


@dataclass
class Comparison:
    """Difference between the runs of two results with the same seeds or folds. Everything unknown is None.

    Attributes:
        difference: mean difference over the pairs of runs, with its 95 % `interval`.
        p_value: two-sided p-value of a paired t-test.
        pairs: number of runs that both results have.
        remark: reason for a missing or limited comparison.
    """

    difference: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    pairs: int = 0
    remark: str | None = None


def compare_runs(
    first: Mapping[int, float],
    second: Mapping[int, float],
    first_data: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    second_data: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    *,
    folds: int | None = None,
) -> Comparison:
    """Compare two results in the runs that both have. Runs are not compared if their data differ or a score is NaN.

    Interval and p-value are those of a paired t-test. The training sets of folds overlap, so that the variance of
    their differences is corrected (Nadeau and Bengio 2003): the factor 1/n becomes 1/n + 1/(folds - 1).

    Args:
        first: scores of the first result, by index of the run.
        second: scores of the second result.
        first_data: digest of each split, by index of the run of the first result, *optional*.
        second_data: the same of the second result, *optional*.
        folds: number of folds, if the runs are folds of a cross-validation, *optional*.

    Example:
        >>> comparison = compare_runs({0: 81.0, 1: 83.0, 2: 82.0}, {0: 79.5, 1: 80.5, 2: 81.0})
        >>> round(comparison.difference, 2), [round(end, 2) for end in comparison.interval]
        (1.67, [-0.23, 3.56])
        >>> round(comparison.p_value, 3)
        0.063
    """
    common = sorted(first.keys() & second.keys())
    if not (first and second):
        return Comparison()
    if not common:
        return Comparison(remark="no run of both has the same seed or fold: not compared")
    differences = np.array([first[index] - second[index] for index in common], dtype=float)
    if not np.isfinite(differences).all():
        return Comparison(remark="a score is NaN: not compared")
    splits = set[str]()
    for index in common:
        a = first_data.get(index, {})
        b = second_data.get(index, {})
        splits |= {split for split in a.keys() & b.keys() if a[split] != b[split]}
    if splits:
        return Comparison(remark=f"the runs have other data ({', '.join(sorted(splits))}): not compared")
    comparison = Comparison(difference=float(differences.mean()), pairs=len(common))
    remarks = []
    unpaired = sorted(first.keys() ^ second.keys())
    if unpaired:
        indices = ", ".join(map(str, unpaired))
        remarks.append(f"run {indices} exists on one side only and is not compared")
    if comparison.pairs == 1:
        remarks.append("one run: no interval")
    elif differences.std(ddof=1) <= SAME * max(1.0, float(np.abs(differences).max())):
        remarks.append("all differences are equal: no interval")
    else:
        _add_t_test(comparison, differences, folds)
    comparison.remark = "; ".join(remarks) or None
    return comparison


def _add_t_test(comparison: Comparison, differences: np.ndarray, folds: int | None) -> None:
    """Add the interval and the p-value of a paired t-test."""
    count = len(differences)
    mean = float(differences.mean())
    overlap = 0.0 if folds is None else 1 / (folds - 1)
    error = math.sqrt(float(differences.var(ddof=1)) * (1 / count + overlap))
    low, high = stats.t.interval(0.95, count - 1, loc=mean, scale=error)
    comparison.interval = (float(low), float(high))
    comparison.p_value = 2 * float(stats.t.sf(abs(mean) / error, count - 1))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for the number of tests (Holm 1979).

    The probability of at least one p-value below 5 % is at most 5 % if no row differs from its baseline, for any
    dependence between the tests. None stays None and is not counted.

    Example:
        >>> holm([0.01, None, 0.04, 0.03])
        [0.03, None, 0.06, 0.06]
    """
    corrected: list[float | None] = [None] * len(p_values)
    ranked = sorted((value, index) for index, value in enumerate(p_values) if value is not None)
    largest = 0.0
    for rank, (value, index) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * value))
        corrected[index] = largest
    return corrected


def format_interval(interval: tuple[float, float] | None, scale: float = 1) -> str:
    """Format an interval for a table. Both ends are multiplied by `scale`."""
    if interval is None:
        return "-"
    low, high = interval
    return f"[{scale * low:+.2f}, {scale * high:+.2f}]"


def format_p(value: float | None) -> str:
    """Format a p-value for a table."""
    return "-" if value is None else f"{value:.2g}"


@dataclass
class Result:
    """Runs of one setting with several seeds, or the folds of a cross-validation.

    Attributes:
        folds: number of folds, or None for seeds.
        metrics: metrics of the runs, by seed or by index of the fold.
        data: digests of the splits that decide the scores of the runs.
    """

    folds: int | None
    metrics: Mapping[int, Mapping[str, Any]]
    data: Mapping[int, Mapping[str, Any]]

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
        """Names of the scores, without losses, times and counts."""
        names = dict.fromkeys(itertools.chain.from_iterable(self.metrics.values()))
        return list(filter(self._is_score, names))

    def _is_score(self, name: str) -> bool:
        base = name.partition("@")[0]
        if not base.startswith(("eval_", "predict_")):
            return False
        if base.endswith((*NO_SCORES, "_loss", "_total", "_thresh")):
            return False
        return all(isinstance(metrics.get(name), int | float | None) for metrics in self.metrics.values())


def load_result(name: str) -> Result:
    """Read a result, as it is named for `compare`."""
    table, is_table, row = name.partition(".json:")
    if is_table:
        row, _, task = row.partition(":")
        return _row_of_table(f"{table}.json", row, task)
    folders = [Path(name)] if Path(name).is_dir() else sorted(map(Path, glob.glob(name)))
    if not folders:
        raise ValueError(f"{name} is no folder, no pattern of folders and no TABLE.json:ROW. Check the name.")
    if len(folders) == 1 and (folders[0] / FOLDS).is_file():
        folds = read_json(folders[0] / FOLDS)["settings"]["num_folds"]
        by_index = {index: folders[0] / f"fold-{index}" for index in range(1, folds + 1)}
    else:
        folds = None
        by_index = {}
        for folder in folders:
            seed = _arguments(folder).get("seed", 0)
            if seed in by_index:
                raise ValueError(f"{name} has several runs with seed {seed}: name each seed once.")
            by_index[seed] = folder
    metrics: dict[int, Any] = {}
    data: dict[int, Any] = {}
    for index, folder in by_index.items():
        metrics[index] = finished(folder)
        if metrics[index] is None:
            raise ValueError(
                f"{folder} is not the output folder of a finished run: repeat its command. A table is given by"
                " TABLE.json:ROW, and several seeds by a pattern in quotes."
            )
        arguments = _arguments(folder)
        data[index] = {split: arguments[split] for split in ("validation data", "test data") if split in arguments}
    return Result(folds, metrics, data)


def _arguments(folder: Path) -> dict[str, Any]:
    """Return the arguments of a run and the digests of its data; nothing for a run without training."""
    path = folder / RUN
    return read_json(path) if path.is_file() else {}


def _row_of_table(path: str, row: str, task: str) -> Result:
    all_runs = read_json(path)["runs"]
    runs = [run for run in all_runs if run["row"] == row and task in ("", run["task"])]
    if len({run["task"] for run in runs}) != 1:
        names = dict.fromkeys(f"{run['row']}:{run['task']}" for run in all_runs)
        raise ValueError(f"{path}: give one row and task of {join_names(list(names))}, as in {path}:ROW:TASK.")
    metrics = {run["run"]: run["metrics"] for run in runs}
    data = {run["run"]: run["data"] for run in runs}
    return Result(runs[0]["folds"], metrics, data)


def compare(first: str, second: str, metrics: Sequence[str] = (), output: Path | None = None) -> str:
    """Compare two results, and return the comparison as text.

    Args:
        first: name of a result, as for `hf-localattn compare`.
        second: name of the result that it is compared with.
        metrics: names of scores, such as "eval_f1". Defaults to all that both results have.
        output: JSON file for the comparison, *optional*.

    Raises:
        ValueError: the results cannot be compared: they have no common seed, other data, or a NaN score.
    """
    a = load_result(first)
    b = load_result(second)
    folds = a.folds
    if b.folds != folds:
        raise ValueError(f"The results are of {a.kind} and {b.kind}: compare seeds with seeds, or the same folds.")
    common = [name for name in a.names if name in b.names]
    names = list(metrics) or common
    if not names or not {*names} <= {*common}:
        shared = join_names(common) or "none"
        raise ValueError(f"{first} and {second} share the scores {shared}: --metric must name one of them.")
    comparisons: dict[str, Comparison] = {}
    for name in names:
        comparison = compare_runs(a.scores(name), b.scores(name), a.data, b.data, folds=folds)
        if comparison.difference is None:
            raise ValueError(f"{name}: {comparison.remark}.")
        comparisons[name] = comparison
    p_values = holm([comparison.p_value for comparison in comparisons.values()])
    corrected = dict(zip(comparisons, p_values, strict=True))
    if output is not None:
        entries = {}
        for name, comparison in comparisons.items():
            entries[name] = {**vars(comparison), "corrected_p_value": corrected[name]}
        write_results(output, {"first": first, "second": second, "folds": folds, "scores": entries})
    lines = [
        f"A: {first}",
        f"B: {second}",
        "",
        "| score | A | B | A - B | 95 % interval | corrected p (n) |",
        "|---|---|---|---|---|---|",
    ]
    for name, comparison in comparisons.items():
        means = [statistics.fmean(result.scores(name).values()) for result in (a, b)]
        lines.append(_line(name, means, comparison, corrected[name]))
    lines.append("")
    names_by_remark: dict[str, list[str]] = {}
    for name, comparison in comparisons.items():
        if comparison.remark:
            names_by_remark.setdefault(comparison.remark, []).append(name)
    for remark, named in names_by_remark.items():
        lines.append(f"* {', '.join(named)}: {remark}.")
    pairs = "folds, with Nadeau and Bengio's correction" if folds else "seeds"
    tests = len(p_values) - p_values.count(None)
    lines.append(f"* n is the number of pairs of {pairs}; p is corrected for {tests} scores (Holm).")
    return "\n".join(lines)


def _line(name: str, means: Sequence[float], comparison: Comparison, p_value: float | None) -> str:
    scale = 1
    if max(map(abs, means)) <= 1:  # shares have small differences
        name += " (%)"
        scale = 100
    cells = [
        name,
        *(f"{scale * mean:.2f}" for mean in means),
        f"{scale * (comparison.difference or 0):+.2f}",
        format_interval(comparison.interval, scale),
        f"{format_p(p_value)} ({comparison.pairs})",
    ]
    return f"| {' | '.join(cells)} |"
