"""Reproduction of a table: plan, check, execute or resume its runs, and report them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from hf_localattn.claims import claimed
from hf_localattn.errors import listed
from hf_localattn.files import remove_leftovers
from hf_localattn.studies.executors import Executor, TrialFailed, executor_of
from reproduction.figures import draw_figure
from reproduction.grid_search import GridSearch
from reproduction.plan import TableRun, plan
from reproduction.preflight import check_runs
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
        TrialFailed: runs have failed in workers. All other runs are reported.
        ValueError, OSError, ImportError: a run cannot be run on this machine, or another process uses the output
            folder. Nothing has been run.
    """
    if workers < 1:
        raise ValueError(f"--workers must be at least 1; got {workers}.")
    runner = Runner(output / RUNS, keep_models=keep_models)
    spread = {"workers": workers, "ray_address": ray_address}
    if dry_run:
        _reproduce(selection, output, runner, spread, searches=searches, dry_run=True)
        return
    with claimed(output):
        remove_leftovers(output)
        _reproduce(selection, output, runner, spread, searches=searches, dry_run=False)


def _reproduce(
    selection: Selection,
    output: Path,
    runner: Runner,
    spread: dict[str, Any],
    *,
    searches: bool,
    dry_run: bool,
) -> None:
    table = selection.table
    runs = plan(selection)
    if not runs:
        raise ValueError(f"No row of this selection of {table.name} can be run: the paper quotes their numbers.")
    print(f"{table.title} ({table.source})")
    left = [run for run in runs if runner.result_of(run) is None]
    if dry_run:
        _show(runs, left)
    check_runs(runs if searches else left, searches=searches)
    search = GridSearch(runner, given=selection.overrides.arguments, spread=spread) if searches else None
    is_spread, executor = spread["workers"] > 1 or spread["ray_address"] is not None, None
    if is_spread and not dry_run:  # raise an error if the cluster does not answer
        executor = executor_of(**spread, folder=output, use_cpu=all(run.arguments.get("use_cpu") for run in runs))
    print(f"{len(left)} of {len(runs)} runs are left.")
    if dry_run:
        return
    if search is not None:
        runs = [search.best(run) for run in tqdm(runs, desc="searching", unit="run")]
    else:  # with a search, the best settings of other rows are not known
        selection, known = _with_finished_baselines(selection, runner)
        runs = [*known, *runs]
    failed = {} if executor is None else _run_elsewhere(executor, runner, runs)
    report = Report(selection, output, [] if search is None else list(search.found.values()))
    if failed:
        runs = [run for run in runs if runner.folder_of(run) not in failed]
    runs.sort(key=lambda run: runner.result_of(run) is None)  # finished ones first, for the report of a killed command
    with tqdm(runs, unit="run") as bar:
        for run in bar:
            bar.set_postfix_str(run.name)
            report.add(run, runner.run(run), runner.folder_of(run), runner.model_of(run))
    if failed:
        reasons = listed(list(failed.values()))
        raise TrialFailed(f"Runs without a result: {reasons}. Repeat the command to run them again.")
    report.show()
    if table.figure is not None:
        print(draw_figure(table, report.runs, output))


def _run_elsewhere(executor: Executor, runner: Runner, runs: Sequence[TableRun]) -> dict[Path, str]:
    """Run the unfinished runs in other processes, and return the errors of failed runs by folder.

    Runs that measure times are not included, because they need the whole machine.
    """
    left = [run for run in runs if not run.is_timed and runner.result_of(run) is None]
    names = {runner.folder_of(run): run.name for run in left}
    jobs = {job.folder: job for job in map(runner.job, left)}  # rows may share a run
    failed: dict[Path, str] = {}
    if not jobs:
        return failed
    with tqdm(total=len(jobs), unit="run") as bar:
        for outcome in executor.run(jobs.values()):
            folder = outcome.job.folder
            bar.set_postfix_str(names[folder])
            bar.update()
            if outcome.error is not None:
                failed[folder] = f"{names[folder]}: {outcome.error}"
    return failed


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
