"""Figures of runs: curves over the values of a field, and bars of differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_localattn.extras import import_extra
from hf_localattn.files import atomic_write
from hf_localattn.inspection.draw import EXTRA, picture
from reproduction.report import Runs, values_of
from reproduction.tables import Bars, Curve, LearningCurve, Table, TableScore, TableTask


def figure_of(table: Table, runs: Runs) -> Any:
    """Draw the finished runs of a figure.

    Args:
        table: a table that has a `figure`.
        runs: the finished runs.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: no run of the figure is finished.
    """
    if isinstance(table.figure, Curve):
        return _curves(table, table.figure, runs)
    if isinstance(table.figure, LearningCurve):
        return _learning_curves(table, table.figure, runs)
    assert isinstance(table.figure, Bars)
    return _bars(table, table.figure, runs)


def draw_figure(table: Table, runs: Runs, output: Path) -> str:
    """Draw a figure to `TABLE.png` in a folder, and return a line that names the file or says why there is none."""
    try:
        figure = figure_of(table, runs)
    except ValueError as error:  # a bar needs two rows, and a selection may have one
        return f"No figure: {error}"
    path = output / f"{table.name}.png"
    atomic_write(path, picture(figure, "png"))
    return f"Drew {path}."


def _curves(table: Table, figure: Curve, runs: Runs) -> Any:
    task = table.tasks[figure.task]
    score = task.scores[figure.score]
    curves = {
        title: {
            table.rows[row].local_config[figure.x]: values
            for row in rows
            if (values := _values(runs, row, task, score))
        }
        for title, rows in figure.series.items()
    }
    places = sorted({place for curve in curves.values() for place in curve})
    for title, row in figure.levels.items():
        if places and (level := _values(runs, row, task, score)):
            curves[title] = dict.fromkeys((places[0], places[-1]), level)
    curves = {title: curve for title, curve in curves.items() if curve}
    return draw_curves(curves, x_label=figure.x_label, y_label=f"{score.name} ({task.title})", title=table.title)


def _learning_curves(table: Table, figure: LearningCurve, runs: Runs) -> Any:
    curves: dict[str, dict[Any, list[float]]] = {}
    for title, rows in figure.series.items():
        for task in table.tasks.values():
            if values := [value for row in rows for value in _values(runs, row, task, task.scores[figure.score])]:
                curves.setdefault(title, {})[task.arguments[figure.x]] = values
    return draw_curves(curves, x_label=figure.x_label, y_label=figure.score, title=table.title, bands=True)


def _bars(table: Table, figure: Bars, runs: Runs) -> Any:
    bars: dict[str, dict[str, list[float]]] = {}
    for title, (row, other) in figure.series.items():
        for task in table.tasks.values():
            score = task.scores[figure.score]
            more, less = (values_of(runs, own, task.name, score) for own in (row, other))
            if common := sorted(more.keys() & less.keys()):
                bars.setdefault(title, {})[task.title] = [more[number] - less[number] for number in common]
    return draw_bars(bars, y_label=f"difference in {figure.score}", title=table.title)


def _values(runs: Runs, row: str, task: TableTask, score: TableScore) -> list[float]:
    return list(values_of(runs, row, task.name, score).values())


Series = Mapping[Any, Sequence[float]]
"""Values by place. Several values, such as scores of several seeds, are drawn as mean and deviation."""


def draw_curves(
    curves: Mapping[str, Series], *, x_label: str, y_label: str, title: str = "", bands: bool = False
) -> Any:
    """Draw values against numbers, one line per name, with error bars for several values of one number.

    Args:
        curves: values by name and number, such as {"with": {1: [80.1, 80.3], 2: [80.9, 80.7]}}.
        x_label: label of the x axis.
        y_label: label of the y axis.
        title: title of the figure.
        bands: draw bands in place of error bars.

    Raises:
        ValueError: there are no curves.
        ImportError: matplotlib is not installed.
    """
    figure, axes = _plot(curves, 6.4, x_label, y_label, title)
    places = sorted({place for values in curves.values() for place in values})
    for number, (name, values) in enumerate(curves.items()):
        means, deviations = _means_and_deviations([values[x] for x in sorted(values)])
        style = {"marker": "osD^vPX*"[number % 8], "markersize": 5, "capsize": 3, "label": name}
        bars = None if bands or np.isnan(deviations).all() else deviations
        line = axes.errorbar(sorted(values), means, yerr=bars, **style)[0]
        if bands:
            low, high = np.subtract(means, deviations), np.add(means, deviations)
            axes.fill_between(sorted(values), low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    if len(places) <= 16:
        axes.set_xticks(places)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def draw_bars(bars: Mapping[str, Series], *, y_label: str, title: str = "") -> Any:
    """Draw values of groups, one bar per group and name, with error bars for several values of one bar.

    Args:
        bars: values by name and group, such as {"Augment": {"em": [88.1, 87.9], "emb": [88.4]}}. A missing group has
            no bar. Values may be negative.
        y_label: label of the y axis.
        title: title of the figure.

    Raises:
        ValueError: there are no bars.
        ImportError: matplotlib is not installed.
    """
    groups = list(dict.fromkeys(group for values in bars.values() for group in values))
    figure, axes = _plot(bars, max(6.0, 0.35 * len(groups) * (len(bars) + 1)), "", y_label, title)
    thickness = 0.8 / len(bars)
    for number, (name, values) in enumerate(bars.items()):
        own = [place for place, group in enumerate(groups) if group in values]
        means, deviations = _means_and_deviations([values[groups[place]] for place in own])
        xs = [place + (number - (len(bars) - 1) / 2) * thickness for place in own]
        axes.bar(xs, means, thickness, yerr=deviations, capsize=3, label=name)
    longest = max(len(str(group)) for group in groups)
    axes.set_xticks(range(len(groups)), labels=groups, rotation=90 if longest > 8 else 0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _plot(series: Mapping[str, Series], width: float, x_label: str, y_label: str, title: str) -> tuple[Any, Any]:
    """Return a figure with axes, whose label explains the error bars, if any."""
    if not series:
        raise ValueError("no run of the figure is finished.")
    figure = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(width, 3.8), layout="constrained")
    axes = figure.add_subplot()
    deviates = any(len(one) > 1 for values in series.values() for one in values.values())
    axes.set(xlabel=x_label, ylabel=f"{y_label}, ± deviation" if deviates else y_label)
    axes.set_title(title, loc="left", wrap=True)
    return figure, axes


def _means_and_deviations(values: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the mean and sample deviation of each. A single value has the deviation NaN, which is not drawn."""
    deviations = [float(np.std(one, ddof=1)) if len(one) > 1 else math.nan for one in values]
    return [float(np.mean(one)) for one in values], deviations
