"""Report of a table: measured and published numbers with standard deviations, differences and their significance."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hf_localattn.files import atomic_write
from hf_localattn.studies.compare import Comparison, compare_runs, format_interval, format_p, holm
from hf_localattn.studies.study import write_results
from reproduction.corpora import describe_source
from reproduction.plan import Selection, TableRun
from reproduction.tables import Row, Score, Table, TableTask

Runs = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""Metrics by row and task, and by run number."""

CHOICES = {"backbone": "backbone", "parser": "parser", "runs": "number of runs", "limit": "rows of each split at most"}
"""Settings of the caller in result files, with their names in the report."""


def finite_scores(runs: Runs, row: str, task: str, score: Score) -> dict[int, float]:
    """Return the finite scores of a row, by run number, in the paper's unit."""
    return {number: value for number, value in _scores(runs, row, task, score).items() if math.isfinite(value)}


def _scores(runs: Runs, row: str, task: str, score: Score) -> dict[int, float]:
    """Return a score of all runs of a row, by run number, in the paper's unit. JSON has null for NaN."""
    return {
        number: math.nan if metrics[score.metric] is None else metrics[score.metric] * score.scale
        for number, metrics in runs.get((row, task), {}).items()
        if score.metric in metrics
    }


def summarize(
    table: Table, rows: Sequence[Row], tasks: Sequence[TableTask], runs: Runs, data: Runs = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Return a cell for each published or measured score, in the table's order, from metrics and digests of data.

    Returns:
        Cells of `TABLE.json`: names and titles; `published` and `measured` number (mean of the runs) in the paper's
        unit or as a ratio to the baseline, `deviation` of the sample and their `difference`; the fields of
        `Comparison` with the same runs of the baseline, the difference as `against_baseline`; and
        `corrected_p_value`, after Holm's correction for all comparisons of the table. Unknown values are None.
    """
    cells = [
        _cell(table, row, task, score, runs, data)
        for row in rows
        for task in tasks
        if row.tasks is None or task.name in row.tasks
        for score in task.all_scores
    ]
    cells = [cell for cell in cells if cell["published"] is not None or cell["runs"]]
    corrected = holm([cell["p_value"] for cell in cells])
    for cell, p_value in zip(cells, corrected, strict=True):
        known = cell["measured"] is not None and cell["published"] is not None
        cell |= {"corrected_p_value": p_value, "difference": cell["measured"] - cell["published"] if known else None}
    return cells


def _cell(table: Table, row: Row, task: TableTask, score: Score, runs: Runs, data: Runs) -> dict[str, Any]:
    own = _scores(runs, row.name, task.name, score)
    published = table.published(row, task, score.name)
    baseline = None if row.baseline is None else table.rows[row.baseline]
    other = {} if baseline is None else _scores(runs, baseline.name, task.name, score)
    if score.ratio:
        reference = baseline or row  # a baseline is compared with itself
        whole = finite_scores(runs, reference.name, task.name, score).values()
        unit = statistics.fmean(whole) if whole else 0.0
        own, other = ({number: value / unit for number, value in one.items()} if unit else {} for one in (own, other))
        known = table.published(reference, task, score.name)
        published = published / known if published is not None and known else None
    values = [value for value in own.values() if math.isfinite(value)]
    found = Comparison()
    if baseline is not None:
        digests = (data.get((name, task.name)) for name in (row.name, baseline.name))
        found = compare_runs(own, other, *digests, folds=task.folds)
    compared = dataclasses.asdict(found)
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


def write_report(
    selection: Selection, path: Path, runs: Sequence[tuple[TableRun, Mapping[str, Any]]], searches: Sequence[Any] = ()
) -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
    """Write the measured table of a selection as JSON and as Markdown, and return the metrics of its runs.

    `path` is the .json file, `runs` are the finished runs with their records, and `searches` the results of searches.
    """
    metrics: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    data: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    results = []
    for run, record in runs:
        metrics.setdefault(run.key, {})[run.number] = record["metrics"]
        data.setdefault(run.key, {})[run.number] = record["data"]
        folder = str(run.folder.relative_to(path.parent))
        where = {"row": run.row.name, "task": run.task.name, "run": run.number, "command": run.command}
        kept = folder if (run.folder / "config.json").is_file() else None
        results.append({**record, **where, "folder": folder, "folds": run.task.folds, "model": kept})
    table, told = selection.table, selection.as_data()
    tasks = [task for task in selection.tasks if task.script != "profile"]  # a profile reads no data
    corpora = dict.fromkeys(name for task in tasks for name in (task.corpus, *task.test_corpora.values()))
    found = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "notes": table.notes,
        "command": told["command"] + " --search" * bool(searches),
        "choices": told["choices"],
        "searches": searches,
        "corpora": {name: describe_source(name, selection.where(name)) for name in corpora},
        "scores": summarize(table, selection.rows, selection.tasks, metrics, data),
        "runs": results,
    }
    write_results(path, found)
    atomic_write(path.with_suffix(".md"), as_markdown(found))
    return metrics


def as_markdown(found: Mapping[str, Any]) -> str:
    """Format the content of `TABLE.json` as a Markdown table with its source and notes."""
    ran = {(cell["row"], cell["task"]) for cell in found["scores"] if cell["measured"] is not None}
    # Finished runs are shown without missing scores, such as times on shared cores.
    cells = [c for c in found["scores"] if c["measured"] is not None or (c["row"], c["task"]) not in ran]
    baselines = list(dict.fromkeys(cell["baseline_title"] for cell in cells if cell["baseline"] is not None))
    against = f"against {baselines[0] if len(baselines) == 1 else 'baseline'}"
    columns = ["row", "task", "score", "published", "measured", "difference", against, "95 % interval"]
    columns += ["corrected p (n)"]
    hidden = set() if any(cell["published"] is not None for cell in cells) else {"published", "difference"}
    hidden |= set() if len({cell["task"] for cell in cells}) > 1 else {"task"}
    rows = [dict(zip(columns, _shown(cell), strict=True)) for cell in cells]
    shown = [name for name in columns if name not in hidden]
    lines = [f"## {found['title']}", "", f"{found['source']} (`{found['table']}`).", ""]
    lines += [*(f"* {text}" for text in _about(found)), "", _line(shown), _line(["---"] * len(shown))]
    lines += [_line([row[name] for name in shown]) for row in rows]
    notes = []
    for baseline in baselines if len(baselines) > 1 else ():
        own = dict.fromkeys(cell["row_title"] for cell in cells if cell["baseline_title"] == baseline)
        notes.append(f"The baseline of {', '.join(own)} is {baseline}.")
    for remark in dict.fromkeys(cell["remark"] for cell in cells if cell["remark"]):
        where = [f"{c['row_title']} ({c['task_title']}, {c['score']})" for c in cells if c["remark"] == remark]
        notes.append(f"{', '.join(where)}: {remark}.")
    lines += ["", *(f"* {note}" for note in [*notes, *found["notes"]]), "", "```bash", found["command"], "```"]
    return "\n".join(lines) + "\n"


def _shown(cell: Mapping[str, Any]) -> list[str]:
    """Return the texts of all columns of a cell."""

    def text(value: float | None, form: str = ".2f") -> str:
        return "" if value is None else format(value, form if abs(value) < 1000 or "+" in form else ",.0f")

    spread = "" if cell["deviation"] is None else f" ± {text(cell['deviation'])}"
    numbers = [text(cell["published"]), text(cell["measured"]) + spread, text(cell["difference"], "+.2f")]
    numbers.append(text(cell["against_baseline"], "+.2f"))
    p_value = f"{format_p(cell['corrected_p_value'])} ({cell['pairs']})"
    tests = [format_interval(cell["interval"]), p_value] if cell["pairs"] else ["", ""]
    return [cell["row_title"], cell["task_title"], cell["score"], *numbers, *tests]


def _about(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on data, changed settings, searches and versions."""
    choices = found["choices"]
    yield f"Data: {'; '.join(f'{name} from {where}' for name, where in found['corpora'].items())}."
    own = {title: choices[name] for name, title in CHOICES.items() if choices.get(name) is not None}
    if choices.get("also") is not None:
        own["further test corpora"] = ", ".join(choices["also"]) or "none"
    if own := own | choices["arguments"]:
        yield f"Changed from the recipe: {', '.join(f'{name} {value}' for name, value in own.items())}."
    for search in found["searches"]:
        tried = len(search["tried"]) + len(search["failed"])
        failed = f", of which {len(search['failed'])} failed" if search["failed"] else ""
        best = ", ".join(f"{name} {value}" for name, value in search["best"].items())
        yield (
            f"Searched for {search['row']}, {search['task']}, with the first seed: {tried} settings"
            f"{failed}; the best is {best}, with {search['metric']} {search['score']:.4f}."
        )
    versions = [", ".join(f"{name} {number}" for name, number in run["versions"].items()) for run in found["runs"]]
    places = Counter(f"{own}, on {run['device']}" for own, run in zip(versions, found["runs"], strict=True))
    for place, count in places.items():
        yield f"{count} run{'' if count == 1 else 's'}: {place}."


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
