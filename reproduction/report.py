"""Report of a table: measured and published numbers with standard deviations, differences and their significance."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hf_localattn.files import atomic_write
from hf_localattn.studies.statistics import Comparison, compare_runs, format_interval, format_p, holm
from hf_localattn.studies.study import write_results
from reproduction.corpora import describe_source, load_corpora
from reproduction.plan import TableRun
from reproduction.request import Selection
from reproduction.tables import Row, Table, TableScore, TableTask

Runs = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""Metrics by row and task, and by run number."""


@dataclass(frozen=True)
class Cell:
    """A score of a row, published and measured, in the paper's unit or as a ratio to the baseline.

    Attributes:
        row: name of the row.
        row_title: its printed title.
        task: name of the task.
        task_title: its printed title.
        score: printed name of the score.
        published: the printed number, or None.
        measured: mean of the runs; None if there are no runs.
        deviation: sample standard deviation, None for a single run.
        runs: number of runs.
        baseline: name of the baseline. None if the row is a baseline.
        baseline_title: its printed title.
        against_baseline: mean difference from the same runs of the baseline, or None.
        interval: 95 % interval of this difference, or None.
        p_value: p-value of a paired t-test of this difference; for folds, with the correction of Nadeau and
            Bengio. None if there are fewer than two pairs, or if all pairs have the same difference.
        corrected_p_value: p-value after Holm's correction for all comparisons of the table.
        pairs: number of runs that both rows have.
        remark: reason for a missing or limited comparison, or None.
    """

    row: str
    row_title: str
    task: str
    task_title: str
    score: str
    published: float | None
    measured: float | None
    deviation: float | None
    runs: int
    baseline: str | None
    baseline_title: str | None
    against_baseline: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    pairs: int
    remark: str | None
    corrected_p_value: float | None = None

    @property
    def difference(self) -> float | None:
        """Measured minus published number."""
        return None if self.measured is None or self.published is None else self.measured - self.published


def values_of(runs: Runs, row: str, task: str, score: TableScore) -> dict[int, float]:
    """Return the finite scores of a row, by run number, in the paper's unit."""
    return {number: value for number, value in scores_by_run(runs, row, task, score).items() if math.isfinite(value)}


def scores_by_run(runs: Runs, row: str, task: str, score: TableScore) -> dict[int, float]:
    """Return a score of all runs of a row, by run number, in the paper's unit. JSON has null for NaN."""
    return {
        number: math.nan if metrics[score.metric] is None else metrics[score.metric] * score.scale
        for number, metrics in runs.get((row, task), {}).items()
        if score.metric in metrics
    }


def summarize(
    table: Table,
    rows: Sequence[Row],
    tasks: Sequence[TableTask],
    runs: Runs,
    data: Runs = MappingProxyType({}),
) -> list[Cell]:
    """Return a cell for each published or measured score, in the table's order.

    Args:
        table: the table.
        rows: rows of the table.
        tasks: tasks of the table.
        runs: metrics of the runs.
        data: digests of the splits of the runs, *optional*.
    """
    cells = []
    for row in rows:
        for task in tasks:
            if row.tasks is not None and task.name not in row.tasks:
                continue
            for score in scores_of_task(task):
                cell = _cell(table, row, task, score, runs, data)
                if cell.published is not None or cell.runs:
                    cells.append(cell)
    corrected = holm([cell.p_value for cell in cells])
    return [dataclasses.replace(cell, corrected_p_value=p) for cell, p in zip(cells, corrected, strict=True)]


def scores_of_task(task: TableTask) -> list[TableScore]:
    """Return the scores of a task and of its further test corpora."""
    others = [
        score.model_copy(update={"name": f"{score.name} on {title}", "metric": f"{score.metric}@{title}"})
        for title in task.test_corpora
        for score in task.scores.values()
    ]
    return [*task.scores.values(), *others]


def _cell(
    table: Table,
    row: Row,
    task: TableTask,
    score: TableScore,
    runs: Runs,
    data: Runs,
) -> Cell:
    own = scores_by_run(runs, row.name, task.name, score)
    published = table.published(row, task, score.name)
    baseline = table.rows[row.baseline] if row.baseline is not None else None
    other = scores_by_run(runs, baseline.name, task.name, score) if baseline is not None else {}
    if score.ratio:
        reference = baseline or row  # a baseline is compared with itself
        whole = [value for value in (other if baseline is not None else own).values() if math.isfinite(value)]
        unit = statistics.fmean(whole) if whole else 0.0
        own = {number: value / unit for number, value in own.items()} if unit else {}
        other = {number: value / unit for number, value in other.items()} if unit else {}
        known = table.published(reference, task, score.name)
        published = published / known if published is not None and known else None
    values = [value for value in own.values() if math.isfinite(value)]
    found = Comparison()
    if baseline is not None:
        mine, theirs = (data.get((name, task.name)) for name in (row.name, baseline.name))
        found = compare_runs(own, other, mine, theirs, folds=task.folds)
    return Cell(
        row=row.name,
        row_title=row.title,
        task=task.name,
        task_title=task.title,
        score=f"{score.name} (ratio)" if score.ratio else score.name,
        published=published,
        measured=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        runs=len(values),
        baseline=row.baseline,
        baseline_title=None if baseline is None else baseline.title,
        against_baseline=found.difference,
        interval=found.interval,
        p_value=found.p_value,
        pairs=found.pairs,
        remark=found.remark,
    )


class Report:
    """The measured table of a selection, written after each run as `TABLE.json` and `TABLE.md`.

    Args:
        selection: rows and tasks of the table.
        output: output folder.
        searches: results of the searches, one for each row and task.

    Attributes:
        runs: metrics of the finished runs.
    """

    def __init__(self, selection: Selection, output: Path, searches: Sequence[Mapping[str, Any]] = ()):
        self.selection, self.output, self.searches = selection, output, searches
        self.runs: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        self.data: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        self._results: list[dict[str, Any]] = []

    def add(self, run: TableRun, result: Mapping[str, Any], folder: Path, model: Path | None) -> None:
        """Add a finished run and write the files.

        Args:
            run: the run.
            result: its record.
            folder: its folder.
            model: the folder of its model, or None.
        """
        self.runs.setdefault(run.key, {})[run.number] = result["metrics"]
        self.data.setdefault(run.key, {})[run.number] = result["data"]
        where = {"row": run.row.name, "task": run.task.name, "run": run.number, "command": run.command}
        where |= {"folder": str(folder.relative_to(self.output)), "folds": run.task.folds}
        kept = None if model is None else str(model.relative_to(self.output))
        self._results.append({**result, **where, "model": kept})
        found = self._content()
        write_results(self._path("json"), found)
        atomic_write(self._path("md"), as_markdown(found))

    def show(self) -> None:
        """Print the table and the paths of its files and models."""
        print(self._path("md").read_text(encoding="utf-8"))
        for result in self._results:
            if result["model"] is not None:
                print(f"{result['row']}, {result['task']}, run {result['run']}: {self.output / result['model']}")
        print(f"Wrote {self._path('md')} and .json.")

    def _path(self, suffix: str) -> Path:
        return self.output / f"{self.selection.table.name}.{suffix}"

    def _content(self) -> dict[str, Any]:
        table, overrides, corpora = self.selection.table, self.selection.overrides, load_corpora()
        tasks = [task for task in self.selection.tasks if task.script != "profile"]  # a profile reads no data
        names = dict.fromkeys(name for task in tasks for name in (task.corpus, *task.test_corpora.values()))
        cells = summarize(table, self.selection.rows, self.selection.tasks, self.runs, self.data)
        return {
            "table": table.name,
            "title": table.title,
            "source": table.source,
            "notes": table.notes,
            "command": " ".join([self.selection.command, *(["--search"] if self.searches else [])]),
            "choices": overrides.as_data(),
            "searches": self.searches,
            "corpora": {name: describe_source(overrides.where(name), corpora, name) for name in names},
            "scores": [{**dataclasses.asdict(cell), "difference": cell.difference} for cell in cells],
            "runs": self._results,
        }


_CALLED = {"backbone": "backbone", "parser": "parser", "runs": "number of runs", "limit": "rows of each split at most"}


def as_markdown(found: Mapping[str, Any]) -> str:
    """Format the content of `TABLE.json` as a Markdown table with its source and notes."""
    ran = {(cell["row"], cell["task"]) for cell in found["scores"] if cell["measured"] is not None}
    # Finished runs are shown without missing scores, such as times on shared cores.
    cells = [c for c in found["scores"] if c["measured"] is not None or (c["row"], c["task"]) not in ran]
    several = len({cell["task"] for cell in cells}) > 1
    baselines = list(dict.fromkeys(cell["baseline_title"] for cell in cells if cell["baseline"] is not None))
    printed = [] if all(cell["published"] is None for cell in cells) else ["published", "difference"]
    head = ["row", *(["task"] if several else []), "score", *printed[:1], "measured", *printed[1:]]
    head += [f"against {baselines[0] if len(baselines) == 1 else 'baseline'}", "95 % interval", "corrected p (n)"]
    lines = [f"## {found['title']}", "", f"{found['source']} (`{found['table']}`).", ""]
    lines += [*(f"* {text}" for text in _about(found)), "", _line(head), _line(["---"] * len(head))]
    for cell in cells:
        measured = _shown(cell["measured"])
        if cell["deviation"] is not None:
            measured += f" ± {_shown(cell['deviation'])}"
        p_value = f"{format_p(cell['corrected_p_value'])} ({cell['pairs']})" if cell["pairs"] else ""
        interval = format_interval(cell["interval"]) if cell["pairs"] else ""
        own = [cell["row_title"], *([cell["task_title"]] if several else [])]
        own += [cell["score"], *([_shown(cell["published"])] if printed else []), measured]
        own += [_signed(cell["difference"])] if printed else []
        lines.append(_line([*own, _signed(cell["against_baseline"]), interval, p_value]))
    notes = (*_compared(cells, baselines), *_remarks(cells), *found["notes"])
    lines += ["", *(f"* {note}" for note in notes)]
    lines += ["", "```bash", found["command"], "```"]
    return "\n".join(lines) + "\n"


def _about(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on data, changed settings, searches and versions."""
    choices, runs = found["choices"], found["runs"]
    yield f"Data: {'; '.join(f'{name} from {where}' for name, where in found['corpora'].items())}."
    own = {_CALLED[name]: choices[name] for name in _CALLED if choices.get(name) is not None}
    if choices.get("also") is not None:
        own["further test corpora"] = ", ".join(choices["also"]) or "none"
    own |= choices["arguments"]
    if own:
        yield f"Changed from the recipe: {', '.join(f'{name} {value}' for name, value in own.items())}."
    for search in found["searches"]:
        tried = len(search["tried"]) + len(search["failed"])
        failed = f", of which {len(search['failed'])} failed" if search["failed"] else ""
        best = ", ".join(f"{name} {value}" for name, value in search["best"].items())
        yield (
            f"Searched for {search['row']}, {search['task']}, with the first seed: {tried} settings"
            f"{failed}; the best is {best}, with {search['metric']} {search['score']:.4f}."
        )
    where = Counter(
        ", ".join(f"{name} {number}" for name, number in run["versions"].items()) + f", on {run['device']}"
        for run in runs
    )
    for versions, count in where.items():
        yield f"{count} run{'' if count == 1 else 's'}: {versions}."


def _compared(cells: Sequence[Mapping[str, Any]], baselines: Sequence[str]) -> Iterator[str]:
    """Yield the rows that are compared with each baseline if there are several baselines."""
    for baseline in baselines if len(baselines) > 1 else ():
        rows = dict.fromkeys(cell["row_title"] for cell in cells if cell["baseline_title"] == baseline)
        yield f"The baseline of {', '.join(rows)} is {baseline}."


def _remarks(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the limits of comparisons, each with the cells that it applies to."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        remarks = [cell["remark"]] if cell["remark"] else []
        if cell.get("examples"):  # of older results
            remarks.append(f"the interval also covers other test examples ({cell['examples']} were kept)")
        for remark in remarks:
            found.setdefault(remark, []).append(f"{cell['row_title']} ({cell['task_title']}, {cell['score']})")
    for remark, where in found.items():
        yield f"{', '.join(where)}: {remark}."


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
