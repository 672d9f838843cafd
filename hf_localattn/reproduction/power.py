"""Differences that the runs of a table can detect, known before training."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from hf_localattn.reproduction.plan import TableRun
from hf_localattn.reproduction.runs import Runner
from hf_localattn.reproduction.scores import values_of
from hf_localattn.studies.statistics import detectable_difference


def detectable(runs: Sequence[TableRun], runner: Runner) -> Iterator[str]:
    """Yield a line for each task and baseline: the smallest difference that the planned runs can detect.

    The deviation is that of the baseline's finished runs. Without two of them, the difference is in deviations.
    """
    compared = {(run.task.name, run.row.baseline): run for run in runs if run.row.baseline is not None and run.trains}
    for (_, baseline), run in compared.items():
        task, count = run.task, max(one.number for one in runs if one.key == run.key)
        own = [one for one in runs if one.key == (baseline, task.name)]
        known = {one.number: record["metrics"] for one in own if (record := runner.result_of(one)) is not None}
        score = next(iter(task.scores.values()))
        values = list(values_of({(str(baseline), task.name): known}, str(baseline), task.name, score).values())
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        overlap = 0.0 if task.folds is None else 1 / (task.folds - 1)
        found = detectable_difference(deviation or 1.0, count, overlap=overlap)
        if found is None:
            yield f"{task.title}: one run of each row shows no difference between rows; give --num-runs 3 or more."
        else:
            unit = f"{score.name} (from {len(values)} finished runs)" if deviation else "of its deviations"
            yield (
                f"{task.title}: {count} runs of each row detect a difference from {baseline} of {found:.2f} {unit} or"
                " more (5 %, power 80 %)."
            )
