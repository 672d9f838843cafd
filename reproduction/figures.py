"""Figures of runs: curves over the values of a field, and bars of differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_localattn.files import atomic_write
from hf_localattn.inspection.draw import draw_bars, draw_curves, picture
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
