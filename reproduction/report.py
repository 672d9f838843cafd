"""Report of a table: measured and published numbers with standard deviations, differences and their significance."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_localattn.files import atomic_write
from hf_localattn.studies.compare import Comparison, compare_runs, format_interval, format_p, holm
from hf_localattn.studies.study import write_results
from reproduction.corpora import load_corpora
from reproduction.plan import Selection, TableRun
from reproduction.runs import result_of
from reproduction.tables import Row, Score, Table, TableTask

Records = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""Records of runs, with their `metrics` and digests of their `data`, by row and task and by run number."""


def scores_of(records: Records, row: str, task: str, score: Score) -> dict[int, float]:
    """Return a score of all runs of a row, by run number, in the paper's unit. JSON has null for NaN."""
    known = {number: record["metrics"] for number, record in records.get((row, task), {}).items()}
    found = {number: metrics[score.metric] for number, metrics in known.items() if score.metric in metrics}
    return {number: math.nan if value is None else value * score.scale for number, value in found.items()}


def summarize(table: Table, rows: Sequence[Row], tasks: Sequence[TableTask], records: Records) -> list[dict[str, Any]]:
    """Return a cell of `TABLE.json` for each published or measured score, in the table's order.

    Numbers are in the paper's unit, or ratios to the baseline. `corrected_p_value` has Holm's correction for all
    comparisons of the table. Unknown values are None.
    """
    cells = [
        _cell(table, row, task, score, records)
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


def _cell(table: Table, row: Row, task: TableTask, score: Score, records: Records) -> dict[str, Any]:
    own = scores_of(records, row.name, task.name, score)
    published = row.printed(task, score.name)
    baseline = None if row.baseline is None else table.rows[row.baseline]
    other = {} if baseline is None else scores_of(records, baseline.name, task.name, score)
    if score.ratio:
        reference = baseline or row  # a baseline is compared with itself
        whole = list(filter(math.isfinite, scores_of(records, reference.name, task.name, score).values()))
        unit = statistics.fmean(whole) if whole else 0.0
        own, other = ({number: value / unit for number, value in one.items()} if unit else {} for one in (own, other))
        known = reference.printed(task, score.name)
        published = published / known if published is not None and known else None
    values = [value for value in own.values() if math.isfinite(value)]
    found = Comparison()
    if baseline is not None:
        both = (records.get((name, task.name), {}) for name in (row.name, baseline.name))
        data = ({number: record["data"] for number, record in one.items()} for one in both)
        found = compare_runs(own, other, *data, folds=task.folds)
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


def write_report(selection: Selection, path: Path, runs: Sequence[TableRun], searches: Sequence[Any] = ()) -> Records:
    """Write the measured table of a selection as JSON and as Markdown, and return the records of its finished runs.

    `path` is the .json file, and `searches` are the results of searches. Nothing is written if no run is finished.
    """
    records: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    results, table = [], selection.table
    for run in runs:
        if (record := result_of(run)) is None:
            continue
        records.setdefault(run.key, {})[run.number] = record
        folder = str(run.folder.relative_to(path.parent))
        where = {"row": run.row.name, "task": run.task.name, "run": run.number, "command": run.command}
        kept = folder if (run.folder / "config.json").is_file() else None
        results.append({**record, **where, "folder": folder, "folds": run.task.folds, "model": kept})
    if not results:
        return records
    tasks = [task for task in selection.tasks if task.script != "profile"]  # a profile reads no data
    corpora = dict.fromkeys(name for task in tasks for name in (task.corpus, *task.test_corpora.values()))
    found = {
        "table": table.name,
        **table.model_dump(include={"title", "source", "notes"}),
        "command": selection.command + (" --search" if searches else ""),
        "searches": searches,
        "corpora": {name: load_corpora()[name].place(selection.data.get(name)) for name in corpora},
        "scores": summarize(table, selection.rows, selection.tasks, records),
        "runs": results,
    }
    write_results(path, found)
    atomic_write(path.with_suffix(".md"), as_markdown(found))
    return records


def as_markdown(found: Mapping[str, Any]) -> str:
    """Format the content of `TABLE.json` as a Markdown table with its source and notes."""
    ran = {(cell["row"], cell["task"]) for cell in found["scores"] if cell["measured"] is not None}
    # Finished runs are shown without missing scores, such as times on shared cores.
    cells = [c for c in found["scores"] if c["measured"] is not None or (c["row"], c["task"]) not in ran]
    baselines = list(dict.fromkeys(cell["baseline_title"] for cell in cells if cell["baseline"] is not None))
    against = f"against {baselines[0] if len(baselines) == 1 else 'baseline'}"
    quotes = any(cell["published"] is not None for cell in cells)
    columns = {"row": True, "task": len({cell["task"] for cell in cells}) > 1, "score": True, "published": quotes}
    columns |= {"measured": True, "difference": quotes, against: True, "95 % interval": True, "corrected p (n)": True}
    heads = [name for name, is_shown in columns.items() if is_shown]
    lines = [f"## {found['title']}", "", f"{found['source']} (`{found['table']}`).", ""]
    lines += [*(f"* {text}" for text in _about(found)), "", _line(heads), _line(["---"] * len(heads))]
    lines += [_line(itertools.compress(_shown(cell), columns.values())) for cell in cells]
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
    """Yield lines on data, searches and versions."""
    yield f"Data: {'; '.join(f'{name} from {where}' for name, where in found['corpora'].items())}."
    for search in found["searches"]:
        tried = len(search["tried"]) + len(search["failed"])
        failed = f", of which {len(search['failed'])} failed" if search["failed"] else ""
        best = ", ".join(f"{name} {value}" for name, value in search["best"].items())
        yield (
            f"Searched for {search['row']}, {search['task']}, with the first seed: {tried} settings"
            f"{failed}; the best is {best}, with {search['metric']} {search['score']:.4f}."
        )
    places = Counter(
        f"{', '.join(map(' '.join, run['versions'].items()))}, on {run['device']}" for run in found["runs"]
    )
    for place, count in places.items():
        yield f"{count} run{'' if count == 1 else 's'}: {place}."


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
