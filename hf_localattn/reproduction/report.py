"""Report of a table: measured and published numbers with standard deviations, differences and p-values."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import stats

from hf_localattn.files import atomic_write
from hf_localattn.reproduction.corpora import describe_source, load_corpora
from hf_localattn.reproduction.plan import TableRun
from hf_localattn.reproduction.request import Selection
from hf_localattn.reproduction.tables import Row, Table, TableScore, TableTask
from hf_localattn.studies.results import write_results

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
        against_baseline: mean difference from the same runs of the baseline.
        p_value: p-value of a paired t-test of this difference. None if there are fewer than two pairs, or if all pairs
            have the same difference.
        pairs: number of runs that both rows have.
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
    p_value: float | None
    pairs: int

    @property
    def difference(self) -> float | None:
        """Measured minus published number."""
        return None if self.measured is None or self.published is None else self.measured - self.published


def summarize(table: Table, rows: Sequence[Row], tasks: Sequence[TableTask], runs: Runs) -> list[Cell]:
    """Return a cell for each published or measured score, in the table's order."""
    cells = []
    for row in rows:
        for task in tasks:
            if row.tasks is not None and task.name not in row.tasks:
                continue
            for score in scores_of_task(task):
                cell = _cell(table, row, task, score, runs)
                if cell.published is not None or cell.runs:
                    cells.append(cell)
    return cells


def scores_of_task(task: TableTask) -> list[TableScore]:
    """Return the scores of a task and of its further test corpora."""
    others = [
        score.model_copy(update={"name": f"{score.name} on {title}", "metric": f"{score.metric}@{title}"})
        for title in task.test_corpora
        for score in task.scores.values()
    ]
    return [*task.scores.values(), *others]


def _cell(table: Table, row: Row, task: TableTask, score: TableScore, runs: Runs) -> Cell:
    own = values_of(runs, row.name, task.name, score)
    published = table.published(row, task, score.name)
    baseline = table.rows[row.baseline] if row.baseline is not None else None
    other = values_of(runs, baseline.name, task.name, score) if baseline is not None else {}
    if score.ratio:
        reference = baseline or row  # a baseline is compared with itself
        whole = list((other if baseline is not None else own).values())
        unit = statistics.fmean(whole) if whole else 0.0
        own = {number: value / unit for number, value in own.items()} if unit else {}
        other = {number: value / unit for number, value in other.items()} if unit else {}
        known = table.published(reference, task, score.name)
        published = published / known if published is not None and known else None
    values = list(own.values())
    common = sorted(own.keys() & other.keys())
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
        against_baseline=statistics.fmean(own[number] - other[number] for number in common) if common else None,
        p_value=_p_value([own[number] for number in common], [other[number] for number in common]),
        pairs=len(common),
    )


def values_of(runs: Runs, row: str, task: str, score: TableScore) -> dict[int, float]:
    """Return a score of all runs of a row, by run number, in the paper's unit."""
    found = {number: metrics.get(score.metric) for number, metrics in runs.get((row, task), {}).items()}
    return {
        number: value * score.scale for number, value in found.items() if value is not None and math.isfinite(value)
    }


def _p_value(own: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the p-value of a paired t-test, or None if all differences are equal."""
    differences = [a - b for a, b in zip(own, other, strict=True)]
    if len(differences) < 2 or max(differences) - min(differences) <= 1e-9 * max(1.0, *map(abs, differences)):
        return None
    value = float(stats.ttest_rel(own, other).pvalue)
    return None if math.isnan(value) else value


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
        self._results: list[dict[str, Any]] = []

    def add(self, run: TableRun, result: Mapping[str, Any], model: Path | None) -> None:
        """Add a finished run and write the files. `model` is the folder of its model, or None."""
        self.runs.setdefault(run.key, {})[run.number] = result["metrics"]
        where = {"row": run.row.name, "task": run.task.name, "run": run.number, "command": run.command}
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
        cells = summarize(table, self.selection.rows, self.selection.tasks, self.runs)
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


_CALLED = {"backbone": "backbone", "parser": "parser", "runs": "seeds", "limit": "rows of each split at most"}


def as_markdown(found: Mapping[str, Any]) -> str:
    """Format the content of `TABLE.json` as a Markdown table with its source and notes."""
    ran = {(cell["row"], cell["task"]) for cell in found["scores"] if cell["measured"] is not None}
    # Finished runs are shown without missing scores, such as times on shared cores.
    cells = [c for c in found["scores"] if c["measured"] is not None or (c["row"], c["task"]) not in ran]
    several = len({cell["task"] for cell in cells}) > 1
    baselines = list(dict.fromkeys(cell["baseline_title"] for cell in cells if cell["baseline"] is not None))
    head = ["row", *(["task"] if several else []), "score", "published", "measured", "difference"]
    head += [f"against {baselines[0] if len(baselines) == 1 else 'baseline'}", "p (n)"]
    lines = [f"## {found['title']}", "", f"{found['source']} (`{found['table']}`).", ""]
    lines += [*(f"* {text}" for text in _about(found)), "", _line(head), _line(["---"] * len(head))]
    for cell in cells:
        measured = _shown(cell["measured"])
        if cell["deviation"] is not None:
            measured += f" ± {_shown(cell['deviation'])}"
        p_value = "-" if cell["p_value"] is None else f"{cell['p_value']:.2g}"
        p_value = f"{p_value} ({cell['pairs']})" if cell["pairs"] else ""
        own = [cell["row_title"], *([cell["task_title"]] if several else [])]
        own += [cell["score"], _shown(cell["published"]), measured]
        lines.append(_line([*own, _signed(cell["difference"]), _signed(cell["against_baseline"]), p_value]))
    lines += ["", *(f"* {note}" for note in (*_compared(cells, baselines), *found["notes"]))]
    lines += ["", "```bash", found["command"], "```"]
    return "\n".join(lines) + "\n"


def _about(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on data, changed settings, searches and versions."""
    choices, runs = found["choices"], found["runs"]
    yield f"Data: {'; '.join(f'{name} from {where}' for name, where in found['corpora'].items())}."
    own = {_CALLED[name]: choices[name] for name in _CALLED if choices.get(name) is not None}
    if choices.get("also") is not None:
        own["tested also on"] = ", ".join(choices["also"]) or "nothing else"
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


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
