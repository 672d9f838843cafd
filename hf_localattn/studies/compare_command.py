"""Significance of the difference between two finished results, for `hf-localattn compare`."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

from hf_localattn.errors import join_names
from hf_localattn.studies.comparison import Comparison, compare_runs, format_interval, format_p
from hf_localattn.studies.finished_results import Result, load_result
from hf_localattn.studies.results import write_results
from hf_localattn.studies.statistics import holm


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
        name: compare_runs(one.scores(name), other.scores(name), name, one.kept, other.kept, folds=one.folds)
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
        covered = f"the interval covers other seeds and other test examples ({own.examples} were kept)"
        for remark in filter(None, (own.remark, covered if own.examples and own.pairs > 1 else None)):
            remarks.setdefault(remark, []).append(name)
    lines += ["", *(f"* {', '.join(names)}: {remark}." for remark, names in remarks.items())]
    if not all(kept.data for result in (one, other) for kept in result.kept.values()):
        lines.append("* Some runs have no digest of their data: check that both were scored on the same rows.")
    kind = "folds, with Nadeau and Bengio's correction" if one.folds else "seeds"
    lines.append(f"* n is the number of pairs of {kind}; p is corrected for {len(found)} scores (Holm).")
    return lines
