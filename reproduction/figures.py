"""Figures of runs: curves over the values of a field, and bars of differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pandas import DataFrame

from hf_localattn.extras import import_extra
from hf_localattn.inspection.draw import EXTRA
from reproduction.report import Records, scores_of
from reproduction.tables import Figure, Table, TableTask


def figure_of(table: Table, records: Records) -> Any:
    """Draw the finished runs of a table that has a `figure`, with matplotlib. None if no run of it is finished."""
    figure = table.figure
    assert figure is not None
    tasks = [table.tasks[figure.task]] if figure.task else list(table.tasks.values())
    points = list(_points(table, figure, tasks, records))
    places = sorted({place for _, place, _ in points})
    for title, row in figure.levels.items():
        level = scores_of(records, row, tasks[0].name, tasks[0].scores[figure.score])
        for end in places[:1] + places[-1:]:
            points += [(title, end, value) for value in level.values()]
    values = DataFrame(points, columns=["title", "place", "value"]).dropna()
    if values.empty:  # a bar needs two rows
        return None
    grouped = values.groupby(["place", "title"], sort=False)["value"]
    means = grouped.mean().unstack(sort=False)
    deviations = grouped.std().unstack(sort=False)
    width = 6.4
    if figure.kind == "bars":
        width = max(6.0, 0.35 * len(means) * (len(means.columns) + 1))
    drawn = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(width, 3.8), layout="constrained")
    axes = drawn.add_subplot()
    if figure.kind == "bars":
        _draw_bars(axes, means, deviations)
    else:
        _draw_curves(axes, means, deviations)
    y_label = {
        "bars": f"difference in {figure.score}",
        "curve": f"{figure.score} ({tasks[0].title})",
        "learning_curve": figure.score,
    }[figure.kind]
    if deviations.notna().any(axis=None):
        y_label += ", ± deviation"
    axes.set(xlabel=figure.x_label, ylabel=y_label)
    axes.set_title(table.title, loc="left", wrap=True)
    axes.grid(axis="y" if figure.kind == "bars" else "both", alpha=0.3)
    axes.set_axisbelow(True)
    drawn.legend(loc="outside right upper", frameon=False)
    return drawn


def _points(
    table: Table, figure: Figure, tasks: Sequence[TableTask], records: Records
) -> Iterator[tuple[str, Any, float]]:
    """Yield the title of the series, the place on the x-axis and the value of each point."""
    for (title, rows), task in itertools.product(figure.series.items(), tasks):
        scores = [scores_of(records, row, task.name, task.scores[figure.score]) for row in rows]
        if figure.kind == "bars":
            first, second = scores
            for index in first:
                if index in second:
                    yield title, task.title, first[index] - second[index]
            continue
        for row, values in zip(rows, scores, strict=True):
            settings = table.rows[row].local_config if figure.task else task.arguments
            for value in values.values():
                yield title, settings[figure.x], value


def _draw_bars(axes: Any, means: DataFrame, deviations: DataFrame) -> None:
    angle = 90 if max(map(len, means.index)) > 8 else 0
    means.plot.bar(ax=axes, yerr=deviations, width=0.8, capsize=3, rot=angle, legend=False)
    axes.axhline(0.0, color="black", linewidth=0.8)


def _draw_curves(axes: Any, means: DataFrame, deviations: DataFrame) -> None:
    for title, marker in zip(means, itertools.cycle("osD^vPX*")):
        line = DataFrame({"y": means[title], "error": deviations[title]})
        line = line.dropna(subset="y").sort_index()
        errors = None if line["error"].isna().all() else line["error"]
        axes.errorbar(line.index, line["y"], errors, marker=marker, markersize=5, capsize=3, label=title)
    if len(means) <= 16:
        axes.set_xticks(sorted(means.index))
