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

from pandas import DataFrame

from hf_localattn.files import atomic_write
from hf_localattn.parsing import format_value
from hf_localattn.studies.compare import compare_runs, correct
from hf_localattn.studies.comparison_files import Comparison, format_interval, format_p, markdown_table
from hf_localattn.studies.results import overlap_of_folds, write_results
from reproduction.corpora import load_corpora
from reproduction.measures import MEASURES, UNREAD
from reproduction.plan import Selection, TableRun
from reproduction.reductions import REDUCTIONS
from reproduction.runs import has_model, result_of
from reproduction.tables import LEVELS, Derived, Row, Score, Table, TableTask, load_table

Records = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""Records of runs, with their `metrics` and digests of their `data`, by row and task and by index of the run."""

Cell = dict[str, Any]
"""A score of a row and task in `TABLE.json`."""

RATIO = " (ratio)"
"""Ending of the names of scores that are shown as ratios."""


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

    Numbers are in the paper's unit, or ratios to the baseline. Interval and `corrected_p_value` have Holm's correction
    for the comparisons of main scores, the first of each task; other scores have a difference alone. Unknown values
    are None.
    """
    cells: list[Cell] = []
    for row in () if table.only_derived else rows:
        for task in tasks:
            if row.tasks is None or task.name in row.tasks:
                main = {score.name for score in task.on_corpora(next(iter(task.scores))).values()}
                for score in task.all_scores:
                    cells.append(_cell(table, row, task, score, records, is_main=score.name in main))
    for column in table.derived.values():
        cells += _derived_cells(table, rows, tasks, column, records)
    cells = [cell for cell in cells if cell["published"] is not None or cell["measured"] is not None or cell["quoted"]]
    correct([cell["comparison"] for cell in cells if cell["is_main"]])
    for cell in cells:
        compared = dataclasses.asdict(cell.pop("comparison"))
        cell["against_baseline"] = compared.pop("difference")
        if not cell.pop("is_main"):
            compared |= dict.fromkeys(("interval", "p_value", "effect_size", "standard_error"))
        del compared["standard_error"]
        cell |= compared
        cell["difference"] = None
        if cell["measured"] is not None and cell["published"] is not None:
            cell["difference"] = cell["measured"] - cell["published"]
    return cells


def _cell(table: Table, row: Row, task: TableTask, score: Score, records: Records, *, is_main: bool) -> Cell:
    baseline = row.baseline or ""
    scores = scores_of(records, row.name, task.name, score)
    baseline_scores = scores_of(records, baseline, task.name, score)
    published = row.printed(task, score.name)
    if score.ratio:
        reference = table.rows.get(baseline, row)  # a baseline is compared with itself
        units = _finite(scores_of(records, reference.name, task.name, score))
        scores = _ratios(scores, units)
        baseline_scores = _ratios(baseline_scores, units)
        published_unit = reference.printed(task, score.name)
        published = published / published_unit if published is not None and published_unit else None
    comparison = compare_runs(
        scores,
        baseline_scores,
        _data_of(records, row.name, task.name),
        _data_of(records, baseline, task.name),
        overlap=_overlap_of(records, row.name, task.name),
    )
    measured = _measured(row, scores, comparison)
    if task.script in MEASURES and measured["deviation"] == 0:  # a count
        measured["deviation"] = None
    return {
        "row": row.name,
        "row_title": row.title,
        "task": task.name,
        "task_title": task.title,
        "score": f"{score.name}{RATIO}" if score.ratio else score.name,
        "digits": score.digits,
        "published": published,
        **measured,
        "is_main": is_main,
        "baseline_title": table.rows[baseline].title if baseline else None,
    }


def _measured(row: Row, scores: Mapping[int, float], comparison: Comparison) -> Cell:
    """Return the part of a cell with the statistics of scores, and their comparison with the row's baseline."""
    values = _finite(scores)
    return {
        "quoted": row.family is None and not row.published,
        "measured": statistics.fmean(values) if values else None,
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "runs": len(values),
        "baseline": row.baseline,
        "comparison": comparison,
    }


def _derived_cells(
    table: Table, rows: Sequence[Row], tasks: Sequence[TableTask], column: Derived, records: Records
) -> Iterator[Cell]:
    """Yield the cells of a derived column for each group of rows, and for each test corpus unless it is reduced."""
    names = column.scores_of(task.name for task in tasks)
    chosen = [task for task in tasks if task.name in names]
    if len(chosen) < len(names):
        return
    published: dict[Any, dict[int, float]] = {}
    measured: dict[Any, dict[int, float]] = {}
    groups: dict[str, Row] = {}
    data: dict[str, dict[int, Any]] = {}
    for row, task in itertools.product(rows, chosen):
        groups.setdefault(row.group, row)
        by_run = data.setdefault(row.group, {})
        for index, digests in _data_of(records, row.name, task.name).items():
            by_run.setdefault(index, {})[task.name] = digests
        for test, score in task.on_corpora(names[task.name]).items():
            levels = (row.group, row.name, task.title, test)
            printed_score = row.printed(task, score.name)
            published[levels] = {} if printed_score is None else {0: printed_score}
            if row.family is not None:
                measured[levels] = scores_of(records, row.name, task.name, score)
    printed = _reduced(column, published)
    scores = _reduced(column, measured)
    tests = dict.fromkeys(test for _, test in (*printed, *scores))
    for (group, row), test in itertools.product(groups.items(), tests):
        baseline = table.rows[row.baseline].group if row.baseline else ""
        of_group = scores.get((group, test), {})
        of_baseline = scores.get((baseline, test), {}) if column.keeps_runs else {}
        overlap = max(_overlap_of(records, other.name, task.name) for other in rows for task in chosen)
        comparison = compare_runs(of_group, of_baseline, data[group], data.get(baseline, {}), overlap=overlap)
        yield {
            "row": row.name,
            "row_title": group,
            "task": test,
            "task_title": test or "all",
            "score": column.name,
            "digits": column.digits,
            "published": printed.get((group, test), {}).get(0),
            **_measured(row, of_group, comparison),
            "is_main": True,
            "baseline_title": baseline or None,
        }


def _reduced(column: Derived, scores: Mapping[Any, Mapping[int, float]]) -> dict[tuple[str, str], dict[int, float]]:
    """Return what the steps of a column make of scores, by group of rows and test corpus, and by index of the run.

    A test corpus that is reduced is "", and runs that are reduced are run 0. Missing values are left out.
    """
    if not any(scores.values()):
        return {}
    values = DataFrame(scores).unstack().rename_axis(LEVELS)
    for step in column.steps:
        reduction, *levels = step.split()
        values = REDUCTIONS[reduction](values, levels)
    results: dict[tuple[str, str], dict[int, float]] = {}
    for record in values.rename("value").reset_index().to_dict("records"):
        result = results.setdefault((record["group"], record.get("test", "")), {})
        if math.isfinite(record["value"]):
            result[record.get("run", 0)] = record["value"]
    return results


def _finite(scores: Mapping[int, float]) -> list[float]:
    return list(filter(math.isfinite, scores.values()))


def _ratios(scores: Mapping[int, float], units: Sequence[float]) -> dict[int, float]:
    """Return ratios to the mean of `units`; nothing without a unit."""
    unit = statistics.fmean(units) if units else 0.0
    return {index: score / unit for index, score in scores.items()} if unit else {}


def _overlap_of(records: Records, row: str, task: str) -> float:
    return max((record.get("overlap", 0.0) for record in records.get((row, task), {}).values()), default=0.0)


def _data_of(records: Records, row: str, task: str) -> dict[int, Any]:
    return {index: record["data"] for index, record in records.get((row, task), {}).items()}


def write_report(selection: Selection, path: Path, runs: Sequence[TableRun], searches: Sequence[Any] = ()) -> Records:
    """Write the measured table of a selection as JSON and as Markdown, and return the records of its finished runs.

    `path` is the .json file, and `searches` are the results of searches. Nothing is written if no run is finished.
    """
    results = []
    for run in runs:
        record = result_of(run)
        if record is None:
            continue
        folder = str(run.folder.relative_to(path.parent))
        result = {
            **record,
            "row": run.row.name,
            "task": run.task.name,
            "run": run.index,
            "command": run.command,
            "folder": folder,
            "folds": run.task.folds,
            "overlap": overlap_of_folds(run.task.folds, run.options) if run.task.folds else 0.0,
            "model": folder if has_model(run) else None,
        }
        results.append(result)
    if results:
        report = report_of(selection, results, searches)
        write_results(path, report)
        atomic_write(path.with_suffix(".md"), as_markdown(report))
    return records_of(results)


def records_of(results: Sequence[Mapping[str, Any]]) -> Records:
    """Return the results of runs by row and task and by index of the run."""
    records: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for result in results:
        records.setdefault((result["row"], result["task"]), {})[result["run"]] = result
    return records


def report_of(
    selection: Selection, results: Sequence[Mapping[str, Any]], searches: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return the content of `TABLE.json` for a selection and the results of its runs."""
    table = selection.table
    notes = list(_notes_of(selection))
    models = max(Counter((result["row"], result["task"]) for result in results).values(), default=0)
    if table.figure is not None and table.figure.is_of_models and models > 1:
        notes.append(f"The figure shows means over {models} models of a row.")
    corpora: dict[str, str] = {}
    for task in selection.tasks:
        if task.script in UNREAD:
            continue
        for name in (task.corpus, *task.test_corpora.values()):
            corpora[name] = load_corpora()[name].place(selection.data.get(name))
    return {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "notes": notes,
        "command": selection.command + (" --search" if searches else ""),
        "encoder": selection.encoder,
        "changes": list(_changes(selection)),
        "searches": searches,
        "corpora": corpora,
        "scores": summarize(table, selection.rows, selection.tasks, records_of(results)),
        "runs": results,
    }


def _notes_of(selection: Selection) -> Iterator[str]:
    """Yield the notes of a table that hold for the selected rows and tasks, and with a changed recipe."""
    selected = {entry.name for entry in (*selection.rows, *selection.tasks)}
    is_changed = bool(selection.args or selection.encoder)
    for note in selection.table.notes:
        is_selected = all(not selected.isdisjoint(names) for names in (note.rows, note.tasks) if names)
        if is_selected and not (is_changed and note.recipe):
            yield note.text
    whole = load_table(selection.table.name)
    pairs = sum(len(task.all_scores) for task in selection.tasks)
    every = sum(len(task.all_scores) for task in whole.tasks.values())
    if whole.only_derived and pairs < every:
        yield f"The scores are those of {pairs} of {every} pairs of a training and a test corpus."


def _changes(selection: Selection) -> Iterator[str]:
    """Yield the settings of a selection that differ from the recipe, each with the recipe's values."""
    settings = dict(selection.args)
    if selection.encoder is not None:
        settings["backbone"] = selection.encoder
    for name, value in settings.items():
        former = dict.fromkeys(format_value(recipe.get(name, "not set")) for recipe in selection.recipes)
        former.pop(format_value(value), None)
        if former:
            yield f"{name} {format_value(value)} ({' or '.join(former)})"
    if selection.max_samples is not None:
        yield f"at most {selection.max_samples:,} rows of a split (all)"
    runs = selection.num_runs
    counts = dict.fromkeys(task.folds or selection.table.runs for task in selection.tasks)
    if runs is not None and [*counts] != [runs]:
        yield f"{runs} {'run' if runs == 1 else 'runs'} ({' or '.join(map(str, counts))})"


def as_markdown(report: Mapping[str, Any]) -> str:
    """Format the content of `TABLE.json` as a Markdown table with its source and notes."""
    cells = list(_shown_cells(report["scores"]))
    baselines = list(dict.fromkeys(cell["baseline_title"] for cell in cells if cell["baseline"] is not None))
    against = f"against {baselines[0] if len(baselines) == 1 else 'baseline'}"
    # The paper's numbers are those of the paper's encoder.
    published = "published" if report["encoder"] is None else "published (the paper's encoder)"
    rows = [_texts(cell, published, against) for cell in cells]
    columns = [column for column in (rows[0] if rows else ()) if any(row[column] for row in rows)]
    if len({cell["task"] for cell in cells}) == 1 and "task" in columns:
        columns.remove("task")
    if report["encoder"] is not None and "difference" in columns:
        columns.remove("difference")
    lines = [f"## {report['title']}", "", f"{report['source']} (`{report['table']}`).", ""]
    lines += [f"* {text}" for text in _about(report)]
    lines += ["", markdown_table(columns, ([row[column] for column in columns] for row in rows)), ""]
    lines += [f"* {note}" for note in [*_notes(cells, baselines), *report["notes"]]]
    lines += ["", "```bash", report["command"], "```"]
    return "\n".join(lines) + "\n"


def _shown_cells(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield the cells without the ratios that a finished run lacks, such as those of times on shared cores."""
    finished = {(cell["row"], cell["task"]) for cell in cells if cell["measured"] is not None}
    for cell in cells:
        is_ratio = cell["score"].endswith(RATIO)
        if cell["measured"] is not None or not is_ratio or (cell["row"], cell["task"]) not in finished:
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


def _texts(cell: Cell, published: str, against: str) -> dict[str, str]:
    """Return the texts of a cell by head of the column."""

    def text(value: float | None, sign: str = "") -> str:
        return "" if value is None else format(value, f"{sign},.{cell['digits']}f")

    spread = "" if cell["deviation"] is None else f" ± {text(cell['deviation'])}"
    p_value = f"{format_p(cell['corrected_p_value'])} ({cell['pairs']})"
    return {
        "row": cell["row_title"],
        "task": cell["task_title"],
        "score": cell["score"],
        published: "not printed" if cell["quoted"] else text(cell["published"]),
        "measured": text(cell["measured"]) + spread,
        "difference": text(cell["difference"], "+"),
        against: text(cell["against_baseline"], "+"),
        "95 % interval": format_interval(cell["interval"]) if cell["pairs"] else "",
        "corrected p (n)": p_value if cell["pairs"] else "",
    }


def _about(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on data, changes of the recipe, searches and versions."""
    corpora = [f"{name} from {place}" for name, place in report["corpora"].items()]
    if corpora:
        yield f"Data: {'; '.join(corpora)}."
    if report["changes"]:
        yield f"Not as in the recipe, whose values are in parentheses: {'; '.join(report['changes'])}."
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
