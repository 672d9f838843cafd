"""Reproduction of a table: plan, check, execute or resume its runs, and report them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tqdm.auto import tqdm

from hf_localattn.claims import claimed
from hf_localattn.errors import listed
from hf_localattn.files import remove_leftovers
from hf_localattn.studies.processes import RunFailed
from reproduction.figures import draw_figure
from reproduction.plan import TableRun, check_runs, plan
from reproduction.report import Report
from reproduction.request import Selection
from reproduction.runs import Runner
from reproduction.tables import load_table, table_names

RUNS = "runs"


def reproduce(
    selection: Selection,
    output: Path,
    *,
    searches: bool = False,
    keep_models: bool = False,
    dry_run: bool = False,
    workers: int = 1,
    ray_address: str | None = None,
) -> None:
    """Run the unfinished runs of a table, and write `TABLE.json`, `TABLE.md` and, for a figure, `TABLE.png`.

    Args:
        selection: rows and tasks of a table.
        output: output folder. All tables share its runs.
        searches: first search the paper's grid for each row and task, with the first seed.
        keep_models: keep the trained models in the output folder.
        dry_run: only show the plan.
        workers: number of runs or search trials at a time.
        ray_address: address of a Ray cluster for the runs.

    Raises:
        RunFailed: runs have failed. All other runs are reported.
        ValueError, OSError, ImportError: a run cannot be run on this machine, or another process uses the output
            folder. Nothing has been run.
    """
    if workers < 1:
        raise ValueError(f"--workers must be at least 1; got {workers}.")
    output = output.resolve()
    runner = Runner(output / RUNS, keep_models, workers, ray_address)
    runs = plan(selection)
    if not runs:
        raise ValueError(
            f"No row of this selection of {selection.table.name} can be run: the paper quotes their numbers."
        )
    print(f"{selection.table.title} ({selection.table.source})")
    left = [run for run in runs if runner.result_of(run) is None]
    if dry_run:
        _show(runs, left)
    check_runs(runs if searches else left)
    print(f"{len(left)} of {len(runs)} runs are left.")
    if not dry_run:
        with claimed(output):
            remove_leftovers(output)
            _reproduce(selection, output, runner, runs, searches=searches)


def _reproduce(
    selection: Selection, output: Path, runner: Runner, runs: Sequence[TableRun], *, searches: bool
) -> None:
    found = []
    if searches:
        best = {}
        for run in tqdm([run for run in runs if run.number == 1], desc="searching", unit="row"):
            best[run.key], search = runner.best(run, selection.overrides.arguments)
            found += [] if search is None else [search]
        runs = [dataclasses.replace(best[run.key], number=run.number) for run in runs]
    else:  # with a search, the best settings of other rows are not known
        selection, known = _with_finished_baselines(selection, runner)
        runs = [*known, *runs]
    report, failed = Report(selection, output, found), []

    def add(own: Sequence[TableRun]) -> None:
        for run in own:
            if (result := runner.result_of(run)) is not None:
                report.add(run, result, runner.folder_of(run), runner.model_of(run))

    left = [run for run in runs if runner.result_of(run) is None]
    add(runs)
    for done, error in runner.execute(left):
        if error is not None:
            failed.append(f"{done.name}: {error}")
        else:
            add([run for run in left if runner.folder_of(run) == runner.folder_of(done)])
    if failed:
        raise RunFailed(f"Runs without a result: {listed(failed)}. Repeat the command to run them again.")
    report.show()
    if selection.table.figure is not None:
        print(draw_figure(selection.table, report.runs, output))


def _with_finished_baselines(selection: Selection, runner: Runner) -> tuple[Selection, list[TableRun]]:
    """Add baselines with finished runs to a selection, and return the selection and these runs."""
    names = {row.name for row in selection.rows}
    compared = {row.baseline for row in selection.rows if row.baseline is not None} - names
    known = [run for run in plan(selection.with_rows(compared)) if runner.result_of(run) is not None]
    return selection.with_rows(names | {run.row.name for run in known}), known


def _show(runs: Sequence[TableRun], left: Sequence[TableRun]) -> None:
    """Print the command of the first run of each row and task."""
    groups: dict[tuple[str, str], list[TableRun]] = {}
    for run in runs:
        groups.setdefault(run.key, []).append(run)
    for (row, task), own in groups.items():
        done = len(own) - sum(run in left for run in own)
        counted = f"{len(own)} run{'s' * (len(own) > 1)}{f', {done} done' if done else ''}"
        print(f"{row}, {task} ({counted}):\n  {own[0].command}")


def list_tables() -> None:
    """Print all tables with their rows and tasks."""
    width = max(map(len, table_names()))
    for name in table_names():
        table = load_table(name)
        print(f"{name:{width}}  {table.title}")
        print(f"{'':{width}}    rows: {', '.join(table.rows)}")
        print(f"{'':{width}}    tasks (corpora): {', '.join(f'{t.name} ({t.corpus})' for t in table.tasks.values())}")
