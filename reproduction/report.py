"""Report of a table: measured and published numbers with standard deviations, differences and their significance."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_localattn.files import atomic_write
from hf_localattn.studies.compare import Comparison, compare_runs, holm
from hf_localattn.studies.comparison_files import format_interval, format_p
from hf_localattn.studies.results import write_results
from reproduction.corpora import load_corpora
from reproduction.plan import Selection, TableRun
from reproduction.runs import result_of
from reproduction.tables import Row, Score, Table, TableTask

Records = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""Records of runs, with their `metrics` and digests of their `data`, by row and task and by index of the run."""

Cell = dict[str, Any]
"""A score of a row and task in `TABLE.json`."""


def scores_of(records: Records, row: str, task: str, score: Score) -> dict[int, float]:
    """Return a score of all runs of a row, by index of the run, in the paper's unit. JSON has null for NaN."""
    scores: dict[int, float] = {}
    for index, record in records.get((row, task), {}).items():
        if score.metric in record["metrics"]:
            value = record["metrics"][score.metric]
            scores[index] = math.nan if value is None else value * score.scale
    return scores


def summarize(table: Table, rows: Sequence[Row], tasks: Sequence[TableTask], records: Records) -> list[Cell]:
    """Return a cell of `TABLE.json` for each published or measured score, in the table's order.

    Numbers are in the paper's unit, or ratios to the baseline. `corrected_p_value` has Holm's correction for all
    comparisons of the table. Unknown values are None.
    """
    cells = []
    for row in rows:
        for task in tasks:
            if row.tasks is None or task.name in row.tasks:
                cells += [_cell(table, row, task, score, records) for score in task.all_scores]
    cells = [cell for cell in cells if cell["published"] is not None or cell["runs"]]
    corrected = holm([cell["p_value"] for cell in cells])
    for cell, p_value in zip(cells, corrected, strict=True):
        cell["corrected_p_value"] = p_value
        cell["difference"] = None
        if cell["measured"] is not None and cell["published"] is not None:
            cell["difference"] = cell["measured"] - cell["published"]
    return cells


def _cell(table: Table, row: Row, task: TableTask, score: Score, records: Records) -> Cell:
    scores = scores_of(records, row.name, task.name, score)
    published = row.printed(task, score.name)
    baseline = None if row.baseline is None else table.rows[row.baseline]
    baseline_scores = {} if baseline is None else scores_of(records, baseline.name, task.name, score)
    if score.ratio:
        reference = baseline or row  # a baseline is compared with itself
        units = _finite(scores if baseline is None else baseline_scores)
        scores = _ratios(scores, units)
        baseline_scores = _ratios(baseline_scores, units)
        published_unit = reference.printed(task, score.name)
        published = published / published_unit if published is not None and published_unit else None
    comparison = Comparison()
    if baseline is not None:
        comparison = compare_runs(
            scores,
            baseline_scores,
            _data_of(records, row.name, task.name),
            _data_of(records, baseline.name, task.name),
            folds=task.folds,
        )
    compared = dataclasses.asdict(comparison)
    values = _finite(scores)
    return {
        "row": row.name,
        "row_title": row.title,
        "task": task.name,
        "task_title": task.title,
        "score": f"{score.name} (ratio)" if score.ratio else score.name,
        "published": published,
        "measured": statistics.fmean(values) if values else None,
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "runs": len(values),
        "baseline": row.baseline,
        "baseline_title": None if baseline is None else baseline.title,
        "against_baseline": compared.pop("difference"),
        **compared,
    }


def _finite(scores: Mapping[int, float]) -> list[float]:
    return list(filter(math.isfinite, scores.values()))


def _ratios(scores: Mapping[int, float], units: Sequence[float]) -> dict[int, float]:
    """Return ratios to the mean of `units`; nothing without a unit."""
    unit = statistics.fmean(units) if units else 0.0
    return {index: score / unit for index, score in scores.items()} if unit else {}


def _data_of(records: Records, row: str, task: str) -> dict[int, Any]:
    return {index: record["data"] for index, record in records.get((row, task), {}).items()}


def write_report(selection: Selection, path: Path, runs: Sequence[TableRun], searches: Sequence[Any] = ()) -> Records:
    """Write the measured table of a selection as JSON and as Markdown, and return the records of its finished runs.

    `path` is the .json file, and `searches` are the results of searches. Nothing is written if no run is finished.
    """
    table = selection.table
    records: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    results = []
    for run in runs:
        record = result_of(run)
        if record is None:
            continue
        records.setdefault(run.key, {})[run.index] = record
        folder = str(run.folder.relative_to(path.parent))
        result = {
            **record,
            "row": run.row.name,
            "task": run.task.name,
            "run": run.index,
            "command": run.command,
            "folder": folder,
            "folds": run.task.folds,
            "model": folder if (run.folder / "config.json").is_file() else None,
        }
        results.append(result)
    if not results:
        return records
    corpora: dict[str, str] = {}
    for task in selection.tasks:
        if task.script == "profile":  # it reads no data
            continue
        for name in (task.corpus, *task.test_corpora.values()):
            corpora[name] = load_corpora()[name].place(selection.data.get(name))
    report = {
        "table": table.name,
        **table.model_dump(include={"title", "source", "notes"}),
        "command": selection.command + (" --search" if searches else ""),
        "searches": searches,
        "corpora": corpora,
        "scores": summarize(table, selection.rows, selection.tasks, records),
        "runs": results,
    }
    write_results(path, report)
    atomic_write(path.with_suffix(".md"), as_markdown(report))
    return records


def as_markdown(report: Mapping[str, Any]) -> str:
    """Format the content of `TABLE.json` as a Markdown table with its source and notes."""
    cells = list(_shown_cells(report["scores"]))
    baselines = list(dict.fromkeys(cell["baseline_title"] for cell in cells if cell["baseline"] is not None))
    against = f"against {baselines[0] if len(baselines) == 1 else 'baseline'}"
    rows = [_texts(cell, against) for cell in cells]
    columns = list(rows[0]) if rows else []
    if len({cell["task"] for cell in cells}) == 1:
        columns.remove("task")
    if rows and all(cell["published"] is None for cell in cells):
        columns.remove("published")
        columns.remove("difference")
    lines = [f"## {report['title']}", "", f"{report['source']} (`{report['table']}`).", ""]
    lines += [f"* {text}" for text in _about(report)]
    lines += ["", _line(columns), _line(["---"] * len(columns))]
    for row in rows:
        lines.append(_line(row[column] for column in columns))
    lines.append("")
    lines += [f"* {note}" for note in [*_notes(cells, baselines), *report["notes"]]]
    lines += ["", "```bash", report["command"], "```"]
    return "\n".join(lines) + "\n"


def _shown_cells(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield the cells without those that a finished run lacks, such as times on shared cores."""
    finished = {(cell["row"], cell["task"]) for cell in cells if cell["measured"] is not None}
    for cell in cells:
        if cell["measured"] is not None or (cell["row"], cell["task"]) not in finished:
            yield cell


def _notes(cells: Sequence[Cell], baselines: Sequence[str]) -> Iterator[str]:
    """Yield lines on the rows' baselines, if there are several, and on comparisons."""
    for baseline in baselines if len(baselines) > 1 else ():
        rows = dict.fromkeys(cell["row_title"] for cell in cells if cell["baseline_title"] == baseline)
        yield f"The baseline of {', '.join(rows)} is {baseline}."
    places: dict[str, list[str]] = {}
    for cell in cells:
        if cell["remark"]:
            place = f"{cell['row_title']} ({cell['task_title']}, {cell['score']})"
            places.setdefault(cell["remark"], []).append(place)
    for remark, names in places.items():
        yield f"{', '.join(names)}: {remark}."


def _texts(cell: Cell, against: str) -> dict[str, str]:
    """Return the texts of a cell by head of the column."""
    spread = "" if cell["deviation"] is None else f" ± {_format(cell['deviation'])}"
    p_value = f"{format_p(cell['corrected_p_value'])} ({cell['pairs']})"
    return {
        "row": cell["row_title"],
        "task": cell["task_title"],
        "score": cell["score"],
        "published": _format(cell["published"]),
        "measured": _format(cell["measured"]) + spread,
        "difference": _format(cell["difference"], "+.2f"),
        against: _format(cell["against_baseline"], "+.2f"),
        "95 % interval": format_interval(cell["interval"]) if cell["pairs"] else "",
        "corrected p (n)": p_value if cell["pairs"] else "",
    }


def _format(value: float | None, form: str = ".2f") -> str:
    if value is None:
        return ""
    is_large = abs(value) >= 1000 and form == ".2f"
    return format(value, ",.0f" if is_large else form)


def _about(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on data, searches and versions."""
    corpora = (f"{name} from {place}" for name, place in report["corpora"].items())
    yield f"Data: {'; '.join(corpora)}."
    for search in report["searches"]:
        count = len(search["tried"]) + len(search["failed"])
        failed = f", of which {len(search['failed'])} failed" if search["failed"] else ""
        best = ", ".join(f"{name} {value}" for name, value in search["best"].items())
        yield (
            f"Searched for {search['row']}, {search['task']}, with the first seed: {count} settings"
            f"{failed}; the best is {best}, with {search['metric']} {search['score']:.4f}."
        )
    environments: Counter[str] = Counter()
    for run in report["runs"]:
        versions = ", ".join(map(" ".join, run["versions"].items()))
        environments[f"{versions}, on {run['device']}"] += 1
    for environment, count in environments.items():
        yield f"{count} run{'' if count == 1 else 's'}: {environment}."


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
