"""Figures of scores: curves over the values of a field, and bars of differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pandas import DataFrame, concat

from hf_localattn.extras import import_extra
from hf_localattn.inspection.draw import EXTRA
from reproduction.report import Records, scores_of
from reproduction.tables import Figure, Table, TableTask


def figure_of(table: Table, records: Records) -> tuple[Any, DataFrame] | None:
    """Draw the finished runs of a table that has a `figure` of scores. None if no run of it is finished.

    Returns:
        The figure of matplotlib, and its points: a line for each run, with the title of its series and its place on
        the x-axis.
    """
    figure = table.figure
    assert figure is not None
    tasks = [table.tasks[figure.task]] if figure.task else list(table.tasks.values())
    points = DataFrame(_points(table, figure, tasks, records), columns=["title", "place", "value"]).dropna()
    if points.empty:  # a bar needs two rows
        return None
    levels = []
    for title, row in figure.levels.items():
        level = scores_of(records, row, tasks[0].name, tasks[0].scores[figure.score])
        for end in dict.fromkeys([points["place"].min(), points["place"].max()]):
            levels += [(title, end, value) for value in level.values()]
    points = concat([points, DataFrame(levels, columns=points.columns)]) if levels else points
    label = f"{figure.score} ({tasks[0].title})" if figure.task else figure.score
    if figure.kind == "bars":
        label = f"difference in {figure.score}"
    return draw_points(points, table.title, figure.x_label, label, bars=figure.kind == "bars"), points


def draw_points(points: DataFrame, title: str, x_label: str, y_label: str, *, bars: bool = False) -> Any:
    """Draw the means over runs with their standard deviations, as a line or as bars for each series.

    Args:
        points: A line for each run, with columns `title` of the series, `place` on the x-axis and `value`. Each value
            of a column `panel` has axes of its own.
        title: Title of the figure.
        x_label: Label of the x-axis.
        y_label: Label of the y-axis.
        bars: Draw bars.
    """
    panels = list(points.groupby("panel", sort=False)) if "panel" in points else [("", points)]
    places = points["place"].nunique()
    series = points["title"].nunique()
    width = max(6.0, 0.35 * places * (series + 1)) if bars else 6.4
    drawn = import_extra("matplotlib.figure", *EXTRA).Figure(
        figsize=(width * (1 + len(panels)) / 2, 3.8), layout="constrained"
    )
    every_axes = drawn.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    has_deviations = False
    for axes, (panel, part) in zip(every_axes, panels, strict=True):
        grouped = part.groupby(["place", "title"], sort=False)["value"]
        means = grouped.mean().unstack(sort=False)
        deviations = grouped.std().unstack(sort=False)
        has_deviations |= bool(deviations.notna().any(axis=None))
        draw = _draw_bars if bars else _draw_curves
        draw(axes, means, deviations)
        axes.set(xlabel=x_label, title=panel)
        axes.grid(axis="y" if bars else "both", alpha=0.3)
        axes.set_axisbelow(True)
    every_axes[0].set_ylabel(f"{y_label}, ± deviation" if has_deviations else y_label)
    drawn.suptitle(title, x=0.01, ha="left", fontsize="medium", wrap=True)
    handles, names = every_axes[0].get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside right center", frameon=False)  # below the title
    return drawn


def _points(
    table: Table, figure: Figure, tasks: Sequence[TableTask], records: Records
) -> Iterator[tuple[str, Any, float]]:
    """Yield the title of the series, the place on the x-axis and the value of each point."""
    if figure.kind == "bars":
        yield from _differences(table, figure, tasks, records)
        return
    for (title, rows), task in itertools.product(figure.series.items(), tasks):
        for row in rows:
            settings = table.rows[row].local_config if figure.task else task.arguments
            for value in scores_of(records, row, task.name, task.scores[figure.score]).values():
                yield title, settings[figure.x], value


def _differences(
    table: Table, figure: Figure, tasks: Sequence[TableTask], records: Records
) -> Iterator[tuple[str, str, float]]:
    """Yield the differences between the two rows of each series in each run, as means over the test corpora.

    The places are training corpora with their numbers of samples, the smallest first.
    """
    sizes = {}
    for task in tasks:
        counts = {0}
        for row, name in records:
            if name == task.name:
                counts |= {record["metrics"].get("train_samples", 0) for record in records[row, name].values()}
        sizes[task.name] = max(counts)
    for task in sorted(tasks, key=lambda task: sizes[task.name]):
        size = sizes[task.name]
        place = f"{task.title} ({size:,})" if size else task.title
        for title, (first, second) in figure.series.items():
            differences: dict[int, list[float]] = {}
            corpora = task.on_corpora(figure.score).values()
            for score in corpora:
                others = scores_of(records, second, task.name, score)
                for index, value in scores_of(records, first, task.name, score).items():
                    if index in others:
                        differences.setdefault(index, []).append(value - others[index])
            for values in differences.values():
                if len(values) == len(corpora):
                    yield title, place, fmean(values)


def _draw_bars(axes: Any, means: DataFrame, deviations: DataFrame) -> None:
    means.plot.bar(ax=axes, yerr=deviations, width=0.8, capsize=3, rot=0, legend=False)
    axes.axhline(0.0, color="black", linewidth=0.8)


def _draw_curves(axes: Any, means: DataFrame, deviations: DataFrame) -> None:
    for title, marker in zip(means, itertools.cycle("osD^vPX*")):
        line = DataFrame({"y": means[title], "error": deviations[title]})
        line = line.dropna(subset="y").sort_index()
        errors = None if line["error"].isna().all() else line["error"]
        axes.errorbar(line.index, line["y"], errors, marker=marker, markersize=5, capsize=3, label=title)
    if len(means) <= 16:
        axes.set_xticks(sorted(means.index))
