"""Figures of runs: curves over the values of a field, and bars of differences."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from hf_localattn.extras import import_extra
from hf_localattn.files import atomic_write
from hf_localattn.inspection.draw import EXTRA, picture
from reproduction.report import Runs, finite_scores
from reproduction.tables import Table


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
    values = DataFrame(curves)
    means = values.map(np.mean, na_action="ignore")
    deviations = values.map(lambda one: np.std(one, ddof=1) if len(one) > 1 else np.nan, na_action="ignore")
    width = 6.4 if places else max(6.0, 0.35 * len(values) * (len(curves) + 1))
    drawn = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(width, 3.8), layout="constrained")
    axes = drawn.add_subplot()
    if places:
        for title, marker in zip(curves, itertools.cycle("osD^vPX*")):
            line = DataFrame({"y": means[title], "yerr": deviations[title]}).dropna(subset="y").sort_index()
            bars = None if line["yerr"].isna().all() else line["yerr"]
            axes.errorbar(line.index, line["y"], bars, marker=marker, markersize=5, capsize=3, label=title)
        if len(values) <= 16:
            axes.set_xticks(sorted(values.index))
    else:
        is_long = max(map(len, values.index)) > 8
        means.plot.bar(ax=axes, yerr=deviations, width=0.8, capsize=3, rot=90 if is_long else 0, legend=False)
        axes.axhline(0.0, color="black", linewidth=0.8)
    label = {"bars": f"difference in {figure.score}", "curve": f"{figure.score} ({tasks[0].title})"}
    y_label = label.get(figure.kind, figure.score) + (", ± deviation" if deviations.notna().any(axis=None) else "")
    axes.set(xlabel=figure.x_label, ylabel=y_label)
    axes.set_title(table.title, loc="left", wrap=True)
    axes.grid(axis="both" if places else "y", alpha=0.3)
    axes.set_axisbelow(True)
    drawn.legend(loc="outside right upper", frameon=False)
    return drawn
