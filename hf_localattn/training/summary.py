"""The summary of a run, which the log shows at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hf_localattn.hub import Score

MOST_SCORES = 10
"""Number of scores that a summary shows."""

MOST_CLASSES = 20
"""Number of classes, entity types or labels that a summary shows."""


@dataclass(frozen=True)
class Section:
    """A part of the summary: a title above rows of cells, which are aligned in columns.

    Args:
        title: Line above the rows.
        rows: Cells of each row. Floats are shown with four decimals.
    """

    title: str
    rows: Sequence[Sequence[str | float]]


def format_summary(sections: Sequence[Section]) -> str:
    """Return the text of a summary. Sections without rows are left out."""
    lines: list[str] = []
    for section in sections:
        if not section.rows:
            continue
        lines.append(section.title)
        cells = [[format_cell(cell) for cell in row] for row in section.rows]
        columns = max(map(len, cells))
        widths = [max(len(row[column]) for row in cells if column < len(row)) for column in range(columns)]
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append(f"  {'  '.join(padded)}".rstrip())
    return "\n".join(lines)


def format_cell(cell: str | float) -> str:
    """Return the text of a cell."""
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def score_section(title: str, scores: Sequence[Score]) -> Section:
    """Return the section of scores: a row for each of the first `MOST_SCORES` names, a column for each split."""
    return _section(title, [(score.metric, score.split, score.value) for score in scores], MOST_SCORES)


def label_sections(scores: Sequence[Score]) -> tuple[list[Score], list[Section]]:
    """Return the scores that are not those of an entity type or label, and a section of the others for each split."""
    counted = {(score.split, score.metric.removesuffix("_number")) for score in scores if "_number" in score.metric}
    of_labels: dict[str, list[tuple[str, str, str | float]]] = {}
    others = []
    for score in scores:
        label, _, name = score.metric.rpartition("_")
        if (score.split, label) in counted:
            value = f"{score.value:g}" if name == "number" else score.value
            of_labels.setdefault(score.split, []).append((label, name, value))
        else:
            others.append(score)
    titles = {split: f"Labels of the {split} rows" for split in of_labels}
    return others, [_section(titles[split], cells, MOST_CLASSES) for split, cells in of_labels.items()]


def _section(title: str, cells: Sequence[tuple[str, str, str | float]], most: int) -> Section:
    """Return a section of cells, each with the names of its row and its column, of at most `most` rows."""
    columns = list(dict.fromkeys(column for _, column, _ in cells))
    rows: dict[str, list[str | float]] = {"": [*columns]}
    for name, column, value in cells:
        rows.setdefault(name, [""] * len(columns))[columns.index(column)] = value
    table = [[name, *row] for name, row in rows.items()] if cells else []
    shown = table[: most + 1]
    if left := len(table) - len(shown):
        shown.append([f"and {left} more in all_results.json"])
    return Section(title, shown)


def report_sections(split: str, report: Mapping[str, Any]) -> list[Section]:
    """Return the sections of a result of `class_report`, of at most `MOST_CLASSES` classes."""
    classes = dict(islice(report["classes"].items(), MOST_CLASSES))
    rows: list[list[str | float]] = [["", "precision", "recall", "f1-score", "support"]]
    rows += [[name, *scores.values()] for name, scores in classes.items()]
    matrix: list[list[str | float]] = []
    if "confusion_matrix" in report:
        matrix.append(["", *classes])
        for name, counts in zip(classes, report["confusion_matrix"], strict=False):
            matrix.append([name, *counts[:MOST_CLASSES]])
    return [
        Section(f"Classes of the {split} rows", rows),
        Section("True classes in rows, predicted ones in columns", matrix),
    ]
