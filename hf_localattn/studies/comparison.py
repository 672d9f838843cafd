"""Comparison of the runs of two results that have the same seeds or folds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from hf_localattn.studies.statistics import compare_paired


@dataclass(frozen=True)
class Kept:
    """Data of a run, and the scores of its test examples.

    Attributes:
        data: number of rows and digest of each split.
        examples: scores of the test examples by metric.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    examples: Mapping[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Significance of the difference between two results. Everything unknown is None.

    Attributes:
        difference: mean difference over the pairs of runs.
        interval: 95 % interval of the difference.
        p_value: two-sided p-value of the difference.
        pairs: number of runs that both results have.
        examples: number of test examples that the interval also covers; 0 if it covers runs only.
        remark: reason for a missing or limited comparison.
    """

    difference: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    pairs: int = 0
    examples: int = 0
    remark: str | None = None


def compare_runs(
    own: Mapping[int, float],
    other: Mapping[int, float],
    metric: str,
    own_kept: Mapping[int, Kept] = MappingProxyType({}),
    other_kept: Mapping[int, Kept] = MappingProxyType({}),
    *,
    folds: int | None = None,
    scale: float = 1.0,
) -> Comparison:
    """Compare two results in the runs that both have. Runs are not compared if their data differ or a score is NaN.

    Args:
        own: scores of the first result, by number of the run.
        other: scores of the second result.
        metric: name of the score.
        own_kept: data and examples of the runs of the first result, *optional*.
        other_kept: data and examples of the runs of the second result, *optional*.
        folds: number of folds, if the runs are folds of a cross-validation, *optional*.
        scale: factor between the scores of examples and the scores, *optional*, defaults to 1.
    """
    common = sorted(own.keys() & other.keys())
    if not common:
        lacking = own and other
        return Comparison(remark="no run of both rows has the same seed or fold: not compared" if lacking else None)
    differences = [own[number] - other[number] for number in common]
    if lost := [number for number, value in zip(common, differences, strict=True) if not math.isfinite(value)]:
        return Comparison(remark=f"the score of run {_listed(lost)} is NaN: not compared")
    pairs = [(own_kept.get(number, Kept()), other_kept.get(number, Kept())) for number in common]
    if splits := sorted({split for first, second in pairs for split in differing(first.data, second.data)}):
        return Comparison(remark=f"the runs have other data ({', '.join(splits)}): not compared")
    remarks = []
    if unpaired := sorted(own.keys() ^ other.keys()):
        remarks.append(f"run {_listed(unpaired)} of only one row is left out of the difference")
    examples = None if folds is not None else _example_differences(pairs, metric, scale)
    if examples is not None and not np.allclose(examples.mean(axis=1), differences, rtol=1e-3, atol=1e-3 * scale):
        remarks.append("the kept scores of examples have another mean than the metric: not used")
        examples = None
    first, second = ([scores[number] for number in common] for scores in (own, other))
    found = compare_paired(first, second, overlap=0.0 if folds is None else 1 / (folds - 1), examples=examples)
    return Comparison(
        difference=found.difference,
        interval=found.interval,
        p_value=found.p_value,
        pairs=found.pairs,
        examples=found.examples,
        remark="; ".join([*([found.note] if found.note else []), *remarks]) or None,
    )


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the splits that both runs have, but with other rows."""
    return [split for split, rows in first.items() if split in second and second[split] != rows]


def format_interval(interval: tuple[float, float] | None) -> str:
    """Format an interval for a table."""
    return "-" if interval is None else f"[{interval[0]:+.2f}, {interval[1]:+.2f}]"


def format_p(value: float | None) -> str:
    """Format a p-value for a table."""
    return "-" if value is None else f"{value:.2g}"


def _example_differences(pairs: list[tuple[Kept, Kept]], metric: str, scale: float) -> np.ndarray | None:
    """Return the differences of examples (pairs, examples), or None if a run lacks them."""
    rows = [[kept.examples.get(metric, []) for kept in pair] for pair in pairs]
    sizes = {len(one) for row in rows for one in row}
    if len(sizes) > 1 or max(sizes) < 2:
        return None
    return scale * np.array([np.subtract(first, second) for first, second in rows])


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
