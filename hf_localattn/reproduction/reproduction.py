"""Reproducing a table: planned, checked, run, and written as it grows, measured beside published."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from hf_localattn.claims import claimed
from hf_localattn.files import remove_leftovers, write_whole, writing
from hf_localattn.reproduction.checks import check_trials
from hf_localattn.reproduction.choices import Selection
from hf_localattn.reproduction.corpora import describe_source, load_corpora
from hf_localattn.reproduction.figures import draw_figure
from hf_localattn.reproduction.grid import Grids
from hf_localattn.reproduction.measures import MEASURES
from hf_localattn.reproduction.report import Runs, as_markdown, summarise
from hf_localattn.reproduction.runner import Runner
from hf_localattn.reproduction.tables import Row, Task
from hf_localattn.reproduction.trials import Trial, plan
from hf_localattn.training.results import write_results

RUNS = "runs"


def reproduce(
    selection: Selection,
    output: Path,
    *,
    searches: bool = False,
    keep_models: bool = False,
    dry_run: bool = False,
) -> None:
    """Run what is not yet run of a table, and write `TABLE.json`, `TABLE.md` and, of a figure, `TABLE.png`.

    Args:
        selection: what of which table.
        output: folder; its runs serve all tables.
        searches: search the paper's grid for each row and task first, with the first seed.
        keep_models: leave the trained models there.
        dry_run: only show the plan.

    Raises:
        ValueError, OSError, ImportError: something cannot be run here, or another process is at the output
            folder; before anything is run.
    """
    if dry_run:
        _reproduce(selection, output, searches=searches, keep_models=keep_models, dry_run=True)
        return
    with claimed(output), writing(output):
        remove_leftovers(output)
        _reproduce(selection, output, searches=searches, keep_models=keep_models, dry_run=False)


def _reproduce(selection: Selection, output: Path, *, searches: bool, keep_models: bool, dry_run: bool) -> None:
    table, choices = selection.table, selection.choices
    runner = Runner(output / RUNS, keep_models=keep_models)
    trials = plan(table, selection.rows, selection.tasks, choices)
    if not trials:
        raise ValueError(f"Nothing of this selection of {table.name} can be run: its numbers are quoted.")
    print(f"{table.title} ({table.source})")
    left = [trial for trial in trials if runner.result_of(trial) is None]
    if dry_run:
        _show(trials, left)
    check_trials(runner, trials if searches else left, searches=searches)
    grids = Grids(runner, given=choices.arguments)
    for line in _estimates(runner, left, trials, grids if searches else None):
        print(line)
    if dry_run:
        return
    if searches:
        trials = [grids.best(trial) for trial in tqdm(trials, desc="searching", unit="run")]
    baselines = [row for row in _baselines(selection) if not searches]  # whose best setting is not known here
    known = [
        trial for trial in plan(table, baselines, selection.tasks, choices) if runner.result_of(trial) is not None
    ]
    chosen = {row.name for row in selection.rows} | {trial.row.name for trial in known}
    selection = dataclasses.replace(selection, rows=[row for row in table.rows.values() if row.name in chosen])
    runs: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    results = []
    trials = [*known, *trials]
    with tqdm(trials, unit="run") as bar:
        for trial in bar:
            bar.set_postfix_str(trial.name)
            result = runner.run(trial)
            runs.setdefault(trial.key, {})[trial.number] = result["metrics"]
            where = {"row": trial.row.name, "task": trial.task.name, "run": trial.number, "command": trial.command}
            model = runner.model_of(trial)
            results.append({**result, **where, "model": None if model is None else str(model.relative_to(output))})
            write_table(selection, runs, results, output, searches=list(grids.found.values()))
    print((output / f"{table.name}.md").read_text(encoding="utf-8"))
    for result in results:
        if result["model"] is not None:
            print(f"{result['row']}, {result['task']}, run {result['run']}: {output / result['model']}")
    print(f"Wrote {output / table.name}.md and .json.")
    if table.figure is not None:
        print(f"Drew {draw_figure(table, runs, output)}.")


def write_table(
    selection: Selection,
    runs: Runs,
    results: Sequence[dict[str, Any]],
    output: Path,
    *,
    searches: Sequence[dict[str, Any]] = (),
) -> None:
    """Write what is measured so far: `TABLE.json`, with where it comes from, and `TABLE.md`."""
    table, choices, corpora = selection.table, selection.choices, load_corpora()
    cells = summarise(table, selection.rows, selection.tasks, runs)
    names = dict.fromkeys(name for task in selection.tasks for name in _corpora(task))
    found = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "notes": table.notes,
        "command": " ".join([selection.command(), *(["--search"] if searches else [])]),
        "choices": choices.as_data(),
        "searches": searches,
        "corpora": {name: describe_source(choices.where(name), corpora, name) for name in names},
        "scores": [{**dataclasses.asdict(cell), "difference": cell.difference} for cell in cells],
        "runs": results,
    }
    write_results(output / f"{table.name}.json", found)
    write_whole(output / f"{table.name}.md", as_markdown(found))


def _baselines(selection: Selection) -> list[Row]:
    """Rows with which those of the selection are compared, and which are not among them."""
    names = {row.name for row in selection.rows}
    compared = {row.baseline for row in selection.rows} - names
    return [row for row in selection.table.rows.values() if row.name in compared]


def _corpora(task: Task) -> list[str]:
    """The names of the corpora that a task reads."""
    if task.script == "profile":
        return []
    return [task.corpus, *task.also.values()]


def _show(trials: Sequence[Trial], left: Sequence[Trial]) -> None:
    """Print the command of each row and task, of its first run."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.key, []).append(trial)
    for (row, task), own in groups.items():
        done = len(own) - sum(trial in left for trial in own)
        runs = f"{len(own)} run{'s' * (len(own) > 1)}{f', {done} done' if done else ''}"
        print(f"{row}, {task} ({runs}):\n  {own[0].command}")


def _estimates(runner: Runner, left: Sequence[Trial], trials: Sequence[Trial], grids: Grids | None) -> Iterator[str]:
    """What is to be done, and how long it takes, by a few steps of one run of each task and backbone."""
    seconds: dict[tuple[str, str], float] = {}

    def seconds_of(trial: Trial) -> float:
        if trial.task.script in MEASURES:
            return 0.0
        key = trial.task.name, trial.words[trial.words.index("--backbone") + 1]
        if key not in seconds:
            seconds[key] = runner.seconds_of(trial)
        return seconds[key]

    def told(total: float) -> str:
        return f"about {timedelta(minutes=math.ceil(total / 60))}" if total > 60 else "less than a minute"

    if grids is not None:
        searches = {trial.key: trial for trial in trials if grids.count(trial)}
        counts = [(grids.count(trial), trial) for trial in searches.values()]
        total = sum(count * seconds_of(trial) for count, trial in counts)
        yield f"Searches try up to {sum(count for count, _ in counts)} settings, which takes {told(total)}."
        left = trials  # with the best settings, which are not known yet
    if left:
        yield (
            f"{len(left)} of {len(trials)} runs are left. By a few steps of one of each task they take"
            f" {told(sum(map(seconds_of, left)))}; loading and further test corpora are not counted."
        )
