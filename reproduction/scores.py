"""Scores of the finished runs of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reproduction.tables import TableScore

Runs = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""Metrics by row and task, and by run number."""


def values_of(runs: Runs, row: str, task: str, score: TableScore) -> dict[int, float]:
    """Return the finite scores of a row, by run number, in the paper's unit."""
    return {number: value for number, value in scores_by_run(runs, row, task, score).items() if math.isfinite(value)}


def scores_by_run(runs: Runs, row: str, task: str, score: TableScore) -> dict[int, float]:
    """Return a score of all runs of a row, by run number, in the paper's unit. JSON has null for NaN."""
    return {
        number: math.nan if metrics[score.metric] is None else metrics[score.metric] * score.scale
        for number, metrics in runs.get((row, task), {}).items()
        if score.metric in metrics
    }
