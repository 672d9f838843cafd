"""The table of a comparison as text, JSON, CSV, LaTeX or a plot."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_localattn.extras import import_extra
from hf_localattn.files import atomic_write
from hf_localattn.studies.results import write_results

COLUMNS = ("score", "A", "B", "A - B", "95 % interval", "corrected p (n)", "d")


@dataclass
class ScoreRow:
    """A score of two results.

    Attributes:
        name: name of the score.
        first: values of the first result, by index of the run.
        second: values of the second result.
        comparison: fields of `Comparison`, and the corrected p-value.
    """

    name: str
    first: Mapping[int, float]
    second: Mapping[int, float]
    comparison: dict[str, Any]

    @property
    def means(self) -> tuple[float, float]:
        return statistics.fmean(self.first.values()), statistics.fmean(self.second.values())

    @property
    def scale(self) -> int:
        """100 for shares, whose differences are small."""
        return 100 if max(map(abs, self.means)) <= 1 else 1

    @property
    def title(self) -> str:
        return self.name if self.scale == 1 else f"{self.name} (%)"

    @property
    def differences(self) -> list[float]:
        """Differences of the pairs, as they are shown."""
        common = sorted(self.first.keys() & self.second.keys())
        return [self.scale * (self.first[index] - self.second[index]) for index in common]

    def texts(self) -> list[str]:
        """Return the texts of the columns."""
        effect_size = self.comparison["effect_size"]
        return [
            self.title,
            *(f"{self.scale * mean:.2f}" for mean in self.means),
            f"{self.scale * self.comparison['difference']:+.2f}",
            format_interval(self.comparison["interval"], self.scale),
            f"{format_p(self.comparison['corrected_p_value'])} ({self.comparison['pairs']})",
            "-" if effect_size is None else f"{effect_size:+.2f}",
        ]


@dataclass
class Table:
    """A comparison of two results.

    Attributes:
        first: name of the first result, A.
        second: name of the second result, B.
        folds: number of folds, or None for seeds.
        rows: the scores.
        notes: sentences on runs that are left out, and on the methods.
    """

    first: str
    second: str
    folds: int | None
    rows: Sequence[ScoreRow]
    notes: Sequence[str]

    @property
    def heads(self) -> tuple[str, str]:
        """Lines that name both results."""
        return f"A: {self.first}", f"B: {self.second}"


def format_interval(interval: tuple[float, float] | None, scale: float = 1) -> str:
    """Format an interval for a table. Both ends are multiplied by `scale`."""
    if interval is None:
        return "-"
    low, high = interval
    return f"[{scale * low:+.2f}, {scale * high:+.2f}]"


def format_p(value: float | None) -> str:
    """Format a p-value for a table."""
    return "-" if value is None else f"{value:.2g}"


def markdown(table: Table) -> str:
    """Return a comparison as Markdown."""
    lines = [*table.heads, ""]
    for texts in (COLUMNS, ["---"] * len(COLUMNS), *(row.texts() for row in table.rows)):
        lines.append(f"| {' | '.join(texts)} |")
    lines.append("")
    lines += [f"* {note}" for note in table.notes]
    return "\n".join(lines)


def check_output(path: Path) -> None:
    """Raise an error for a file that no comparison is written to, or whose library is not installed."""
    if path.suffix not in WRITERS:
        raise ValueError(f"-o {path}: choose a file that ends in one of {', '.join(WRITERS)}.")
    if WRITERS[path.suffix] is write_plot:
        import_extra("matplotlib", "plot", f"-o {path}")


def write_json(path: Path, table: Table) -> None:
    """Write all numbers of a comparison as JSON."""
    content = dict(vars(table))
    content["scores"] = {row.name: row.comparison for row in content.pop("rows")}
    write_results(path, content)


def write_csv(path: Path, table: Table) -> None:
    """Write the numbers of a comparison as CSV, a score a line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("difference", "low", "high", "p_value", "corrected_p_value", "effect_size", "pairs")
    writer.writerow(["score", table.first, table.second, *names])
    for row in table.rows:
        low, high = row.comparison["interval"] or (None, None)
        values = {**row.comparison, "low": low, "high": high}
        writer.writerow([row.name, *row.means, *(values[name] for name in names)])
    atomic_write(path, text.getvalue())


def write_latex(path: Path, table: Table) -> None:
    """Write a comparison as a `tabular`, which needs no package. The notes are comments."""
    comments = [f"% {' '.join(text.split())}" for text in (*table.heads, *table.notes)]
    lines = [*comments, r"\begin{tabular}{lrrrcrr}", r"\hline"]
    lines += [_latex_row(COLUMNS), r"\hline"]
    lines += [_latex_row(row.texts()) for row in table.rows]
    lines += [r"\hline", r"\end{tabular}"]
    atomic_write(path, "\n".join(lines) + "\n")


def _latex_row(texts: Sequence[str]) -> str:
    cells = []
    for text in texts:
        is_signed = re.fullmatch(r"[+-]\d.*|\[.*\]|A - B", text)
        cells.append(f"${text}$" if is_signed else re.sub(r"([_%&#$])", r"\\\1", text))
    return " & ".join(cells) + r" \\"


def write_plot(path: Path, table: Table) -> None:
    """Draw the mean difference of each score with its interval, and a small point for each pair of runs."""
    from matplotlib.figure import Figure

    count = len(table.rows)
    figure = Figure(figsize=(6.4, 1.1 + 0.8 * count), layout="constrained")
    axes = figure.subplots(count, 1, squeeze=False)[:, 0]
    for axis, row in zip(axes, table.rows, strict=True):
        mean = row.scale * row.comparison["difference"]
        low, high = row.comparison["interval"] or (row.comparison["difference"],) * 2
        axis.axvline(0, color="0.6", linewidth=1)
        axis.plot(row.differences, [0] * len(row.differences), "o", color="0.55", markersize=5, alpha=0.6)
        axis.hlines(0.3, row.scale * low, row.scale * high, color="tab:blue", linewidth=2)
        axis.plot([mean], [0.3], "D", color="tab:blue", markersize=6)
        axis.set_yticks([0.15], [row.title])
        axis.set_ylim(-0.3, 0.6)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(left=False)
    figure.suptitle("\n".join(table.heads), fontsize="medium", x=0.01, ha="left", parse_math=False)
    figure.supxlabel("A - B, with 95 % interval; a point for each pair of runs", fontsize="medium")
    content = io.BytesIO()
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(content, format=path.suffix[1:], dpi=150, metadata=undated.get(path.suffix))
    atomic_write(path, content.getvalue())


WRITERS: dict[str, Callable[[Path, Table], None]] = {
    ".json": write_json,
    ".csv": write_csv,
    ".tex": write_latex,
    ".png": write_plot,
    ".svg": write_plot,
    ".pdf": write_plot,
}
"""Functions that write a comparison, by the ending of the file."""
