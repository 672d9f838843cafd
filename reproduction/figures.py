"""Figures of runs: curves over the values of a field, and bars of differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_localattn.extras import import_extra
from hf_localattn.files import atomic_write
from hf_localattn.inspection.draw import EXTRA, picture
from reproduction.report import Runs, finite_scores
from reproduction.tables import Table

Series = Mapping[Any, Sequence[float]]
"""Values by place. Several values, such as scores of several seeds, are drawn as mean and deviation."""


def draw_figure(table: Table, runs: Runs, output: Path) -> str:
    """Draw a figure to `TABLE.png` in a folder, and return a line that names the file or says why there is none."""
    try:
        figure = figure_of(table, runs)
    except ValueError as error:  # a bar needs two rows, and a selection may have one
        return f"No figure: {error}"
    path = output / f"{table.name}.png"
    atomic_write(path, picture(figure, "png"))
    return f"Drew {path}."


def figure_of(table: Table, runs: Runs) -> Any:
    """Draw the finished runs of a table that has a `figure`.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: no run of the figure is finished.
    """
    figure, curves = table.figure, dict[str, dict[Any, list[float]]]()
    assert figure is not None
    tasks = [table.tasks[figure.task]] if figure.task else list(table.tasks.values())
    for title, rows in figure.series.items():
        for task in tasks:
            scores = [finite_scores(runs, row, task.name, task.scores[figure.score]) for row in rows]
            if figure.kind == "bars":
                more, less = scores
                if common := sorted(more.keys() & less.keys()):
                    curves.setdefault(title, {})[task.title] = [more[number] - less[number] for number in common]
                continue
            for row, values in zip(rows, scores, strict=True):
                is_curve = figure.kind == "curve"
                place = table.rows[row].local_config[figure.x] if is_curve else task.arguments[figure.x]
                if values:
                    curves.setdefault(title, {}).setdefault(place, []).extend(values.values())
    places = sorted({place for curve in curves.values() for place in curve}) if figure.kind != "bars" else []
    for title, row in figure.levels.items() if places else ():
        if level := finite_scores(runs, row, tasks[0].name, tasks[0].scores[figure.score]):
            curves[title] = {end: list(level.values()) for end in (places[0], places[-1])}
    if not curves:
        raise ValueError("no run of the figure is finished.")
    groups = list(dict.fromkeys(group for values in curves.values() for group in values))
    width = 6.4 if places else max(6.0, 0.35 * len(groups) * (len(curves) + 1))
    drawn = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(width, 3.8), layout="constrained")
    axes = drawn.add_subplot()
    label = {"bars": f"difference in {figure.score}", "curve": f"{figure.score} ({tasks[0].title})"}
    deviates = any(len(one) > 1 for values in curves.values() for one in values.values())
    y_label = label.get(figure.kind, figure.score) + (", ± deviation" if deviates else "")
    axes.set(xlabel=figure.x_label, ylabel=y_label)
    axes.set_title(table.title, loc="left", wrap=True)
    if places:
        _draw_curves(axes, curves, bands=figure.kind == "learning_curve")
    else:
        _draw_bars(axes, curves, groups)
    drawn.legend(loc="outside right upper", frameon=False)
    return drawn


def _draw_curves(axes: Any, curves: Mapping[str, Series], *, bands: bool) -> None:
    """Draw values against numbers, one line per name, with bands or bars of deviations."""
    for number, (name, values) in enumerate(curves.items()):
        places = sorted(values)
        means, deviations = _means_and_deviations([values[place] for place in places])
        style = {"marker": "osD^vPX*"[number % 8], "markersize": 5, "capsize": 3, "label": name}
        bars = None if bands or np.isnan(deviations).all() else deviations
        line = axes.errorbar(places, means, yerr=bars, **style)[0]
        if bands:
            ends = np.subtract(means, deviations), np.add(means, deviations)
            axes.fill_between(places, *ends, color=line.get_color(), alpha=0.2, linewidth=0)
    ticks = sorted({place for values in curves.values() for place in values})
    if len(ticks) <= 16:
        axes.set_xticks(ticks)
    axes.grid(alpha=0.3)


def _draw_bars(axes: Any, bars: Mapping[str, Series], groups: list[str]) -> None:
    """Draw values of groups, one bar per group and name, with error bars for several values. They may be negative."""
    thickness = 0.8 / len(bars)
    for number, (name, values) in enumerate(bars.items()):
        means, deviations = _means_and_deviations(list(values.values()))
        xs = [groups.index(group) + (number - (len(bars) - 1) / 2) * thickness for group in values]
        axes.bar(xs, means, thickness, yerr=deviations, capsize=3, label=name)
    longest = max(len(group) for group in groups)
    axes.set_xticks(range(len(groups)), labels=groups, rotation=90 if longest > 8 else 0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _means_and_deviations(values: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the mean and sample deviation of each. A single value has the deviation NaN, which is not drawn."""
    deviations = [float(np.std(one, ddof=1)) if len(one) > 1 else float("nan") for one in values]
    return [float(np.mean(one)) for one in values], deviations
