"""Measure the errors of `hf_localattn.studies.statistics` on simulated tables without a true difference.

Printed for each number of runs: the share of tables with a false positive after Holm's correction, and the coverage
of the intervals.

Usage: python scripts/simulate_statistics.py [TABLES]
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from hf_localattn.studies import statistics

ROWS = 5
"""Number of rows of a table that are compared with the same baseline."""

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

NOISES: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.normal(80, 1, shape),
    "skewed": lambda rng, shape: 80 - rng.exponential(1, shape),
    "accuracy of 500 examples": lambda rng, shape: rng.binomial(500, 0.8, shape) / 5,
}


def null_tables(tables: int, runs: int, noise: Noise, seed: int = 0) -> tuple[float, float]:
    """Return the share of tables with a false positive, and the coverage of the intervals.

    Args:
        tables: number of tables of `ROWS` rows with a common baseline. No row differs from the baseline.
        runs: number of seeds.
        noise: function that draws scores.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    positives = covered = 0
    for _ in range(tables):
        baseline, *rows = noise(rng, (ROWS + 1, runs))
        found = [statistics.compare_paired(row, baseline) for row in rows]
        corrected = statistics.holm([one.p_value for one in found])
        positives += any(value is not None and value < statistics.LEVEL for value in corrected)
        covered += sum(one.interval is None or one.interval[0] <= 0 <= one.interval[1] for one in found)
    return positives / tables, covered / (tables * ROWS)


def folds(cases: int, count: int, seed: int = 0) -> float:
    """Return the coverage of the intervals of correlated folds, with the correlation that Nadeau and Bengio assume."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(cases, 1)), rng.normal(size=(cases, count))
    differences = np.sqrt(1 / count) * common + np.sqrt(1 - 1 / count) * own
    found = (statistics.compare_paired(one, np.zeros(count), overlap=1 / (count - 1)) for one in differences)
    return sum(one.interval[0] <= 0 <= one.interval[1] for one in found) / cases


def examples(cases: int, runs: int, count: int, deviations: tuple[float, float, float], seed: int = 0) -> float:
    """Return the coverage of intervals over runs and examples.

    Args:
        cases: number of comparisons.
        runs: number of seeds.
        count: number of examples.
        deviations: deviations of the differences between seeds, between examples, and of their interaction.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(cases):
        drawn = _differences(rng, runs, count, deviations)
        found = statistics.compare_paired(drawn.mean(axis=1), np.zeros(runs), examples=drawn)
        covered += found.interval[0] <= 0 <= found.interval[1]
    return covered / cases


def _differences(
    rng: np.random.Generator, runs: int, count: int, deviations: tuple[float, float, float]
) -> np.ndarray:
    shapes = ((runs, 1), (1, count), (runs, count))
    return sum(scale * rng.normal(size=shape) for scale, shape in zip(deviations, shapes, strict=True))


def main(tables: int) -> None:
    """Print all measurements."""
    for name, noise in NOISES.items():
        for runs in (3, 5, 10):
            wrong, coverage = null_tables(tables, runs, noise)
            print(
                f"{name}, {runs} seeds: false positives in {wrong:.2%} of tables, coverage {coverage:.2%}", flush=True
            )
    for count in (5, 10):
        print(f"{count} folds: coverage {folds(tables, count):.2%}", flush=True)
    for deviations in ((0.02, 0.3, 0.3), (0.05, 0.1, 0.3), (0.0, 0.3, 0.3)):
        for runs in (1, 3, 5, 10):
            own = deviations if runs > 1 else (0.0, *deviations[1:])
            found = examples(tables, runs, 300, own)
            print(f"deviations {own}, {runs} seeds, 300 examples: coverage {found:.2%}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
