"""Learning curves of a table: the number of training rows at which the baseline has the score of another row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from hf_localattn.reproduction.scores import Runs, values_of
from hf_localattn.reproduction.tables import LearningCurve, Table
from hf_localattn.studies.matching_size import matching_size


def matching_sizes(table: Table, runs: Runs) -> list[dict[str, Any]]:
    """Return `matching_size` for the rows and tasks of a learning curve, as data. Other tables have none.

    Args:
        table: the table.
        runs: metrics of the runs.

    Returns:
        Titles of row, baseline and task; "size" and the ends of "interval", which are 0 below the smallest measured
        size and None above the largest one; "measured", both of these sizes; and the number of "pairs".
    """
    figure, found = table.figure, []
    if not isinstance(figure, LearningCurve):
        return []
    for row in (table.rows[name] for name in figure.rows):
        if row.baseline is None:
            continue
        scores = {
            name: {
                task.arguments[figure.x]: values
                for task in table.tasks.values()
                if (values := values_of(runs, name, task.name, task.scores[figure.score]))
            }
            for name in (row.name, row.baseline)
        }
        for task in table.tasks.values():
            own = scores[row.name].get(task.arguments[figure.x], {})
            if (matching := matching_size(own, scores[row.baseline])) is not None:
                ends = (matching.size, *matching.interval)
                size, *interval = (round(end, 3) if math.isfinite(end) else None for end in ends)
                known = sorted(scores[row.baseline])
                titles = {"row": row.title, "baseline": table.rows[row.baseline].title, "task": task.title}
                numbers = {"size": size, "interval": interval, "measured": [known[0], known[-1]]}
                found.append({**titles, "score": figure.score, **numbers, "pairs": matching.pairs})
    return found


def describe_matching(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each of the "matching_sizes" of a result file, if it has any."""
    for one in found.get("matching_sizes", ()):
        smallest, largest = one["measured"]

        def told(size: float | None, smallest: int = smallest, largest: int = largest) -> str:
            return f"more than {largest:,}" if size is None else f"{size:,.0f}" if size else f"fewer than {smallest:,}"

        low, high = map(told, one["interval"])
        yield (
            f"{one['row']} with {one['task']}: {one['baseline']} has this {one['score']} with {told(one['size'])}"
            f" (95 % interval over {one['pairs']} seeds: {low} to {high})."
        )
