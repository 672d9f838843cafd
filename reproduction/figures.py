"""Figures of runs: curves over the values of a field, and bars of differences."""

from __future__ import annotations

import itertools
from typing import Any

from pandas import DataFrame

from hf_localattn.extras import import_extra
from hf_localattn.inspection.draw import EXTRA
from reproduction.report import Records, scores_of
from reproduction.tables import Table


def figure_of(table: Table, records: Records) -> Any:
    """Draw the finished runs of a table that has a `figure`, with matplotlib. None if no run of it is finished."""
    figure, points = table.figure, list[tuple[str, Any, float]]()
    assert figure is not None
    tasks = [table.tasks[figure.task]] if figure.task else list(table.tasks.values())
    for (title, rows), task in itertools.product(figure.series.items(), tasks):
        scores = [scores_of(records, row, task.name, task.scores[figure.score]) for row in rows]
        if figure.kind == "bars":
            more, less = scores
            points += [(title, task.title, more[number] - less[number]) for number in more if number in less]
            continue
        for row, values in zip(rows, scores, strict=True):
            place = table.rows[row].local_config[figure.x] if figure.task else task.arguments[figure.x]
            points += [(title, place, value) for value in values.values()]
    places = [] if figure.kind == "bars" else sorted({place for _, place, _ in points})
    for title, row in figure.levels.items():
        level = scores_of(records, row, tasks[0].name, tasks[0].scores[figure.score])
        points += [(title, end, value) for end in places[:1] + places[-1:] for value in level.values()]
    values = DataFrame(points, columns=["title", "place", "value"]).dropna()
    if values.empty:  # a bar needs two rows
        return None
    grouped = values.groupby(["place", "title"], sort=False)["value"]
    means, deviations = (found.unstack(sort=False) for found in (grouped.mean(), grouped.std()))
    width = 6.4 if places else max(6.0, 0.35 * len(means) * (len(means.columns) + 1))
    drawn = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(width, 3.8), layout="constrained")
    axes = drawn.add_subplot()
    if places:
        for title, marker in zip(means, itertools.cycle("osD^vPX*")):
            line = DataFrame({"y": means[title], "yerr": deviations[title]}).dropna(subset="y").sort_index()
            bars = None if line["yerr"].isna().all() else line["yerr"]
            axes.errorbar(line.index, line["y"], bars, marker=marker, markersize=5, capsize=3, label=title)
        if len(means) <= 16:
            axes.set_xticks(sorted(means.index))
    else:
        angle = 90 if max(map(len, means.index)) > 8 else 0
        means.plot.bar(ax=axes, yerr=deviations, width=0.8, capsize=3, rot=angle, legend=False)
        axes.axhline(0.0, color="black", linewidth=0.8)
    label = {"bars": f"difference in {figure.score}", "curve": f"{figure.score} ({tasks[0].title})"}
    y_label = label.get(figure.kind, figure.score) + (", ± deviation" if deviations.notna().any(axis=None) else "")
    axes.set(xlabel=figure.x_label, ylabel=y_label)
    axes.set_title(table.title, loc="left", wrap=True)
    axes.grid(axis="both" if places else "y", alpha=0.3)
    axes.set_axisbelow(True)
    drawn.legend(loc="outside right upper", frameon=False)
    return drawn
