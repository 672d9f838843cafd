"""Comparison of two finished results: intervals, paired tests, Holm's correction.

No module that this one needs imports torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hf_localattn.errors import join_names
from hf_localattn.studies.comparison_files import WRITERS, Comparison, ScoreRow, Table, check_output, markdown
from hf_localattn.studies.results import Result, load_result

SAME = 1e-9
"""Values that vary less than this, relative to their size, are equal except for rounding."""


def method_of(folds: int | None, overlap: float) -> str:
    """Name the method of `interval_of_mean` and `compare_runs`, for tables."""
    if not overlap:
        runs = "seeds" if folds is None else "runs that differ in their seeds alone"
        return f"t-test over {runs}, for the same test rows"
    return "t-test over folds, with Nadeau and Bengio's variance"


def interval_of_mean(values: Sequence[float], overlap: float = 0.0) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean of scores, or of differences of scores: that of a t-test.

    The training sets of folds overlap, so that their variance is corrected (Nadeau and Bengio 2003): the factor 1/n
    becomes 1/n + overlap. With seeds, it is not for other test rows.

    Args:
        values: Scores or differences of the runs.
        overlap (*optional*): Number of test rows divided by that of training rows, if the runs are folds of a
            cross-validation (`hf_localattn.studies.results.overlap_of_folds`).

    Returns:
        The ends; None for a single value, for values that are not finite, and for equal ones.

    Example:
        >>> [round(end, 2) for end in interval_of_mean([1.5, 2.5, 1.0])]
        [-0.23, 3.56]
    """
    if not has_spread(values):
        return None
    return _interval(statistics.fmean(values), _standard_error(values, overlap), len(values))


def _interval(mean: float, standard_error: float, count: int, tests: float = 1.0) -> tuple[float, float]:
    """Return the interval of a t-test at 5 %, divided by the number of tests that Holm's correction counts."""
    half = standard_error * _two_sided_t(0.05 / tests, count - 1)
    return mean - half, mean + half


def _two_sided_p(t: float, degrees: int) -> float:
    """Return the probability of a value of Student's distribution below -t or above t.

    The import of SciPy would take longer than a comparison. Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(degrees))
    first = degrees % 2
    term = math.cos(angle) ** first
    total = 0.0
    for power in range(first, degrees - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power + 1) / (power + 2)
    inside = math.sin(angle) * total
    return max(0.0, 1 - (2 / math.pi * (angle + inside) if first else inside))


def _two_sided_t(p: float, degrees: int) -> float:
    """Return the t of a probability, by bisection."""
    low, high = 0.0, 1.0
    while _two_sided_p(high, degrees) > p:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _two_sided_p(middle, degrees) > p else (low, middle)
    return high


def has_spread(values: Sequence[float]) -> bool:
    """Return True for at least two finite values that differ by more than rounding."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return False
    return statistics.stdev(values) > SAME * max(1.0, *map(abs, values))


def _standard_error(values: Sequence[float], overlap: float) -> float:
    return math.sqrt(statistics.variance(values) * (1 / len(values) + overlap))


def compare_runs(
    first: Mapping[int, float],
    second: Mapping[int, float],
    first_data: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    second_data: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    *,
    overlap: float = 0.0,
) -> Comparison:
    """Compare two results in the runs that both have. Runs are not compared if their data differ or a score is NaN.

    The interval is that of `interval_of_mean`, and the p-value that of the same paired t-test.

    Args:
        first: Scores of the first result, by index of the run.
        second: Scores of the second result.
        first_data (*optional*): Digest of each split, by index of the run of the first result.
        second_data (*optional*): The same of the second result.
        overlap (*optional*): As for `interval_of_mean`.

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
        of_both = " and ".join(", ".join(map(str, sorted(runs))) for runs in (first, second))
        return Comparison(remark=f"no run of both has the same seed or fold (they have {of_both}): not compared")
    differences = [first[index] - second[index] for index in common]
    if not all(map(math.isfinite, differences)):
        return Comparison(remark="a score is NaN: not compared")
    splits = set[str]()
    for index in common:
        a = first_data.get(index, {})
        b = second_data.get(index, {})
        splits |= {split for split in a.keys() & b.keys() if a[split] != b[split]}
    if splits:
        return Comparison(remark=f"the runs have other data ({', '.join(sorted(splits))}): not compared")
    comparison = Comparison(difference=statistics.fmean(differences), pairs=len(common))
    remarks = []
    unpaired = sorted(first.keys() ^ second.keys())
    if unpaired:
        indices = ", ".join(map(str, unpaired))
        remarks.append(f"only one side has run {indices}: the difference is over the other runs")
    if comparison.pairs == 1:
        remarks.append("one run: no interval")
    elif not has_spread(differences):
        remarks.append("all differences are equal: no interval")
    else:
        comparison.standard_error = _standard_error(differences, overlap)
        comparison.interval = interval_of_mean(differences, overlap)
        t = abs(statistics.fmean(differences)) / comparison.standard_error
        comparison.p_value = _two_sided_p(t, len(common) - 1)
    if comparison.pairs > 1:
        variances = [statistics.variance(scores[index] for index in common) for scores in (first, second)]
        deviation = math.sqrt(statistics.fmean(variances))
        comparison.effect_size = statistics.fmean(differences) / deviation if deviation else None
    comparison.remark = "; ".join(remarks) or None
    return comparison


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


def correct(comparisons: Sequence[Comparison]) -> None:
    """Correct p-values and intervals of comparisons for their number, by Holm's method.

    Each interval gets the level of its corrected p-value: it excludes 0 exactly if that is below 5 %.
    """
    corrected = holm([comparison.p_value for comparison in comparisons])
    ranks = sorted((comparison.p_value, index) for index, comparison in enumerate(comparisons) if comparison.p_value)
    left = {index: len(ranks) - rank for rank, (_, index) in enumerate(ranks)}
    for index, (comparison, p_value) in enumerate(zip(comparisons, corrected, strict=True)):
        comparison.corrected_p_value = p_value
        if index not in left or comparison.difference is None or comparison.standard_error is None:
            continue
        assert comparison.p_value is not None
        assert p_value is not None
        tests = left[index] if p_value == 1 else p_value / comparison.p_value  # a greater one of a rank before counts
        comparison.interval = _interval(comparison.difference, comparison.standard_error, comparison.pairs, tests)


def compare(first: str, second: str, metrics: Sequence[str] = (), output: Path | None = None) -> str:
    """Compare two results, and return the comparison as text.

    Args:
        first: Name of a result, as for `hf-localattn compare`.
        second: Name of the result that it is compared with.
        metrics: Names of scores, such as "eval_f1". Defaults to all that both results have.
        output (*optional*): File for the comparison: .json, .csv, .tex, or a plot as .png, .svg or .pdf.

    Raises:
        ValueError: The results cannot be compared: they have no common seed, other data, or a NaN score.
    """
    if output is not None:
        check_output(output)
    a = load_result(first)
    b = load_result(second)
    if b.folds != a.folds:
        raise ValueError(f"The results are of {a.kind} and {b.kind}: compare seeds with seeds, or the same folds.")
    common = [name for name in a.names if name in b.names]
    names = list(metrics) or common
    if not names or not {*names} <= {*common}:
        shared = join_names(common) or "none"
        raise ValueError(f"{first} and {second} share the scores {shared}: --metric must name one of them.")
    comparisons = {}
    for name in names:
        comparison = compare_runs(a.scores(name), b.scores(name), a.data, b.data, overlap=a.overlap)
        if comparison.difference is None:
            raise ValueError(f"{name}: {comparison.remark}.")
        comparisons[name] = comparison
    correct(list(comparisons.values()))
    rows = [ScoreRow(name, a.scores(name), b.scores(name), comparisons[name]) for name in comparisons]
    table = Table(first, second, a.folds, rows, _notes(comparisons, a, b))
    if output is not None:
        WRITERS[output.suffix](output, table)
    return markdown(table)


def _notes(comparisons: Mapping[str, Comparison], a: Result, b: Result) -> list[str]:
    """Return the sentences below a table: runs that are left out, remarks, and the methods."""
    notes = [f"{folder} is not finished and is left out." for folder in (*a.unfinished, *b.unfinished)]
    names_by_remark: dict[str, list[str]] = {}
    for name, comparison in comparisons.items():
        if comparison.remark:
            names_by_remark.setdefault(comparison.remark, []).append(name)
    notes += [f"{', '.join(names)}: {remark}." for remark, names in names_by_remark.items()]
    tests = sum(comparison.p_value is not None for comparison in comparisons.values())
    notes.append(f"Interval and p: paired {method_of(a.folds, a.overlap)}; n is the number of pairs.")
    notes.append(
        f"Both have Holm's correction for {tests} scores. d is Cohen's: A - B in standard deviations of a run."
    )
    return notes
