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
from hf_localattn.studies.study import FOLDS, write_results
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
    own: Mapping[int, float],
    other: Mapping[int, float],
    own_data: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    other_data: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    *,
    folds: int | None = None,
) -> Comparison:
    """Compare two results in the runs that both have. Runs are not compared if their data differ or a score is NaN.

    Interval and p-value are those of a paired t-test. The training sets of folds overlap, so that the variance of
    their differences is corrected (Nadeau and Bengio 2003): the factor 1/n becomes 1/n + 1/(folds - 1).

    Args:
        own: scores of the first result, by number of the run.
        other: scores of the second result.
        own_data: digest of each split, by number of the run of the first result, *optional*.
        other_data: the same of the second result, *optional*.
        folds: number of folds, if the runs are folds of a cross-validation, *optional*.

    Example:
        >>> found = compare_runs({0: 81.0, 1: 83.0, 2: 82.0}, {0: 79.5, 1: 80.5, 2: 81.0})
        >>> round(found.difference, 2), [round(end, 2) for end in found.interval], round(found.p_value, 3)
        (1.67, [-0.23, 3.56], 0.063)
    """
    common = sorted(own.keys() & other.keys())
    if not common:
        return Comparison(remark="no run of both has the same seed or fold: not compared" if own and other else None)
    differences = np.array([own[number] - other[number] for number in common], dtype=float)
    if not np.isfinite(differences).all():
        return Comparison(remark="a score is NaN: not compared")
    data = [(own_data.get(number, {}), other_data.get(number, {})) for number in common]
    if differ := {split for one, two in data for split in one.keys() & two.keys() if one[split] != two[split]}:
        return Comparison(remark=f"the runs have other data ({', '.join(sorted(differ))}): not compared")
    found = Comparison(difference=float(differences.mean()), pairs=len(common))
    unpaired = ", ".join(map(str, sorted(own.keys() ^ other.keys())))
    remarks = [f"run {unpaired} of only one of both is left out of the difference"] if unpaired else []
    if found.pairs == 1:
        remarks.append("one run: no interval")
    elif differences.std(ddof=1) <= SAME * max(1.0, float(np.abs(differences).max())):
        remarks.append("all differences are equal: no interval")
    else:
        overlap = 0.0 if folds is None else 1 / (folds - 1)
        error = math.sqrt(float(differences.var(ddof=1)) * (1 / found.pairs + overlap))
        low, high = stats.t.interval(0.95, found.pairs - 1, loc=found.difference, scale=error)
        found.interval = float(low), float(high)
        found.p_value = 2 * float(stats.t.sf(abs(differences.mean()) / error, found.pairs - 1))
    found.remark = "; ".join(remarks) or None
    return found


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for the number of tests (Holm 1979).

    The probability of at least one p-value below 5 % is at most 5 % if no row differs from its baseline, for any
    dependence between the tests. None stays None and is not counted.

    Example:
        >>> holm([0.01, None, 0.04, 0.03])
        [0.03, None, 0.06, 0.06]
    """
    found: list[float | None] = [None] * len(p_values)
    known = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    largest = 0.0
    for rank, (value, place) in enumerate(known):
        found[place] = largest = max(largest, min(1.0, (len(known) - rank) * value))
    return found


def format_interval(interval: tuple[float, float] | None, scale: float = 1) -> str:
    """Format an interval for a table. Both ends are multiplied by `scale`."""
    return "-" if interval is None else f"[{scale * interval[0]:+.2f}, {scale * interval[1]:+.2f}]"


def format_p(value: float | None) -> str:
    """Format a p-value for a table."""
    return "-" if value is None else f"{value:.2g}"


@dataclass
class Result:
    """Runs of one setting with several seeds, or the folds of a cross-validation.

    Attributes:
        folds: number of folds, or None for seeds.
        metrics: metrics of the runs, by seed or by number of the fold.
        data: digests of the splits that decide the scores of the runs.
    """

    folds: int | None
    metrics: Mapping[int, Mapping[str, Any]]
    data: Mapping[int, Mapping[str, Any]]

    def scores(self, metric: str) -> dict[int, float]:
        """Return a score by number of the run. JSON has null for NaN."""
        found = {number: own[metric] for number, own in self.metrics.items() if metric in own}
        return {number: math.nan if value is None else float(value) for number, value in found.items()}

    @property
    def names(self) -> list[str]:
        """Names of the scores, without losses, times and counts."""
        return [
            name
            for name in dict.fromkeys(itertools.chain.from_iterable(self.metrics.values()))
            if name.startswith(("eval_", "predict_"))
            and not name.partition("@")[0].endswith((*NO_SCORES, "_loss", "_total", "_thresh"))
            and all(isinstance(metrics.get(name), int | float | None) for metrics in self.metrics.values())
        ]


def load_result(name: str) -> Result:
    """Read a result, as it is named for `compare`."""
    table, is_table, row = name.partition(".json:")
    if is_table:
        return _row_of_table(f"{table}.json", *row.partition(":")[::2])
    folders = [Path(name)] if Path(name).is_dir() else [Path(found) for found in sorted(glob.glob(name))]
    if not folders:
        raise ValueError(f"{name} is no folder, no pattern of folders and no TABLE.json:ROW. Check the name.")
    folds, metrics, data = None, dict[int, Any](), dict[int, Any]()
    if len(folders) == 1 and (folders[0] / FOLDS).is_file():
        folds = read_json(folders[0] / FOLDS)["settings"]["num_folds"]
        folders = [folders[0] / f"fold-{number}" for number in range(1, folds + 1)]
    for place, folder in enumerate(folders, start=1):
        known = read_json(folder / RUN) if (folder / RUN).is_file() else {}  # a run without training leaves none
        number = known.get("seed", 0) if folds is None else place
        if number in metrics:
            raise ValueError(f"{name} has several runs with seed {number}: name each seed once.")
        if (own := finished(folder)) is None:
            raise ValueError(
                f"{folder} is not the output folder of a finished run: repeat its command. A table is given by"
                " TABLE.json:ROW, and several seeds by a pattern in quotes."
            )
        metrics[number] = own
        data[number] = {split: known[split] for split in ("validation data", "test data") if split in known}
    return Result(folds, metrics, data)


def _row_of_table(path: str, row: str, task: str) -> Result:
    runs = read_json(path)["runs"]
    own = [run for run in runs if run["row"] == row and task in ("", run["task"])]
    if len({run["task"] for run in own}) != 1:
        known = join_names(list(dict.fromkeys(f"{run['row']}:{run['task']}" for run in runs)))
        raise ValueError(f"{path}: give one row and task of {known}, as in {path}:ROW:TASK.")
    metrics, data = ({run["run"]: run[part] for run in own} for part in ("metrics", "data"))
    return Result(own[0]["folds"], metrics, data)


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
    one, other = load_result(first), load_result(second)
    if one.folds != other.folds:
        kinds = " and ".join("seeds" if own.folds is None else f"{own.folds} folds" for own in (one, other))
        raise ValueError(f"The results are of {kinds}: compare seeds with seeds, or the same folds.")
    common = [name for name in one.names if name in other.names]
    names = list(metrics) or common
    if not names or not {*names} <= {*common}:
        shared = join_names(common) or "none"
        raise ValueError(f"{first} and {second} share the scores {shared}: --metric must name one of them.")
    found = {
        name: compare_runs(one.scores(name), other.scores(name), one.data, other.data, folds=one.folds)
        for name in names
    }
    for name, comparison in found.items():
        if comparison.difference is None:
            raise ValueError(f"{name}: {comparison.remark}.")
    corrected = dict(zip(found, holm([comparison.p_value for comparison in found.values()]), strict=True))
    if output is not None:
        scores = {name: {**vars(own), "corrected_p_value": corrected[name]} for name, own in found.items()}
        write_results(output, {"first": first, "second": second, "folds": one.folds, "scores": scores})
    lines = [f"A: {first}", f"B: {second}", ""]
    lines += ["| score | A | B | A - B | 95 % interval | corrected p (n) |", "|---|---|---|---|---|---|"]
    for name, own in found.items():
        means = [statistics.fmean(result.scores(name).values()) for result in (one, other)]
        scale, unit = (100, " (%)") if max(map(abs, means)) <= 1 else (1, "")  # shares have small differences
        cells = [f"{name}{unit}", *(f"{scale * mean:.2f}" for mean in means), f"{scale * (own.difference or 0):+.2f}"]
        cells += [format_interval(own.interval, scale), f"{format_p(corrected[name])} ({own.pairs})"]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for remark in dict.fromkeys(own.remark for own in found.values() if own.remark):
        lines.append(f"* {', '.join(name for name in found if found[name].remark == remark)}: {remark}.")
    kind = "folds, with Nadeau and Bengio's correction" if one.folds else "seeds"
    tests = sum(own.p_value is not None for own in found.values())
    return "\n".join([*lines, f"* n is the number of pairs of {kind}; p is corrected for {tests} scores (Holm)."])
