"""The table of a comparison as text, JSON, CSV, LaTeX or a plot."""

from __future__ import annotations

import io
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_localattn.extras import import_extra
from hf_localattn.files import atomic_write
from hf_localattn.parsing import format_csv
from hf_localattn.studies.results import write_results

COLUMNS = ("score", "A", "B", "A - B", "95 % interval", "corrected p (n)", "d")


@dataclass
class Comparison:
    """Difference between the runs of two results with the same seeds or folds. Everything unknown is None.

    Attributes:
        difference: Mean difference over the pairs of runs, with its `interval` of 95 %, or after the correction of the
            level of `corrected_p_value`.
        standard_error: Standard error of the difference.
        p_value: Two-sided p-value of a paired t-test.
        corrected_p_value: The same after a correction for all comparisons of a table.
        effect_size: Cohen's d, the difference in standard deviations of a run (the root of both variances' mean).
        pairs: Number of runs that both results have.
        remark: Reason for a missing or limited comparison.
    """

    difference: float | None = None
    interval: tuple[float, float] | None = None
    standard_error: float | None = None
    p_value: float | None = None
    corrected_p_value: float | None = None
    effect_size: float | None = None
    pairs: int = 0
    remark: str | None = None


@dataclass
class ScoreRow:
    """A score of two results.

    Attributes:
        first: Values of the first result, by index of the run; `second` has those of the other one.
        comparison: Difference of the first values from the second.
    """

    name: str
    first: Mapping[int, float]
    second: Mapping[int, float]
    comparison: Comparison

    @property
    def means(self) -> tuple[float, float]:
        """Means over the runs that both results have, whose difference is that of the table."""
        common = self.first.keys() & self.second.keys()
        means = [statistics.fmean(values[index] for index in common) for values in (self.first, self.second)]
        return means[0], means[1]

    @property
    def difference(self) -> float:
        first, second = self.means
        return first - second

    @property
    def scale(self) -> int:
        """100 for shares, whose differences are small."""
        return 100 if max(map(abs, self.means)) <= 1 else 1

    @property
    def title(self) -> str:
        return self.name if self.scale == 1 else f"{self.name} (%)"

    def texts(self) -> list[str]:
        """Return the texts of the columns."""
        comparison = self.comparison
        effect_size = comparison.effect_size
        return [
            self.title,
            *(f"{self.scale * mean:.2f}" for mean in self.means),
            f"{self.scale * self.difference:+.2f}",
            format_interval(comparison.interval, self.scale),
            f"{format_p(comparison.corrected_p_value)} ({comparison.pairs})",
            "-" if effect_size is None else f"{effect_size:+.2f}",
        ]


@dataclass
class Table:
    """A comparison of two results, which have names, with its scores and with sentences below them."""

    first: str
    second: str
    folds: int | None
    rows: Sequence[ScoreRow]
    notes: Sequence[str]

    @property
    def heads(self) -> tuple[str, str]:
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


def markdown_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown. Cells have "/" in place of "|"."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |" for cells in lines)


def markdown(table: Table) -> str:
    """Return a comparison as Markdown."""
    cells = markdown_table(COLUMNS, (row.texts() for row in table.rows))
    return "\n".join([*table.heads, "", cells, "", *(f"* {note}" for note in table.notes)])


def check_output(path: Path) -> None:
    """Raise an error for a file that no comparison is written to, or whose library is not installed."""
    if path.suffix not in WRITERS:
        raise ValueError(f"-o {path}: choose a file that ends in one of {', '.join(WRITERS)}.")
    if WRITERS[path.suffix] is _write_plot:
        import_extra("matplotlib", "plot", f"-o {path}")


def _write_json(path: Path, table: Table) -> None:
    content = dict(vars(table))
    content["scores"] = {row.name: vars(row.comparison) for row in content.pop("rows")}
    write_results(path, content)


def _write_csv(path: Path, table: Table) -> None:
    names = ("difference", "p_value", "corrected_p_value", "effect_size", "pairs")
    lines: list[list[Any]] = [["score", table.first, table.second, "low", "high", *names]]
    for row in table.rows:
        interval = row.comparison.interval or ("", "")
        lines.append([row.name, *row.means, *interval, *(getattr(row.comparison, name) for name in names)])
    atomic_write(path, format_csv(lines))


def _write_latex(path: Path, table: Table) -> None:
    """Write a `tabular`, which needs no package. The notes are comments."""
    lines = [f"% {' '.join(text.split())}" for text in (*table.heads, *table.notes)]
    lines += [r"\begin{tabular}{lrrrcrr}", r"\hline", _latex_row(COLUMNS), r"\hline"]
    lines += [_latex_row(row.texts()) for row in table.rows]
    lines += [r"\hline", r"\end{tabular}", ""]
    atomic_write(path, "\n".join(lines))


def _latex_row(texts: Sequence[str]) -> str:
    cells = []
    for text in texts:
        is_signed = re.fullmatch(r"[+-]\d.*|\[.*\]|A - B", text)
        cells.append(f"${text}$" if is_signed else re.sub(r"([_%&#$])", r"\\\1", text))
    return " & ".join(cells) + r" \\"


def _write_plot(path: Path, table: Table) -> None:
    """Draw the mean difference of each score with its interval, and a small point for each pair of runs."""
    from matplotlib.figure import Figure

    count = len(table.rows)
    figure = Figure(figsize=(6.4, 1.1 + 0.8 * count), layout="constrained")
    axes = figure.subplots(count, 1, squeeze=False)[:, 0]
    for axis, row in zip(axes, table.rows, strict=True):
        mean = row.difference
        low, high = row.comparison.interval or (mean, mean)
        axis.axvline(0, color="0.6", linewidth=1)
        for index in row.first.keys() & row.second.keys():
            axis.plot(
                row.scale * (row.first[index] - row.second[index]), 0, "o", color="0.55", markersize=5, alpha=0.6
            )
        axis.hlines(0.3, row.scale * low, row.scale * high, color="tab:blue", linewidth=2)
        axis.plot(row.scale * mean, 0.3, "D", color="tab:blue", markersize=6)
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
    ".json": _write_json,
    ".csv": _write_csv,
    ".tex": _write_latex,
    **dict.fromkeys((".png", ".svg", ".pdf"), _write_plot),
}
"""Functions that write a comparison, by the ending of the file."""
