"""The loop of a table: its runs are planned, checked, run or taken up again, and reported as they are finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tqdm.auto import tqdm

from hf_localattn.claims import claimed
from hf_localattn.files import remove_leftovers, writing
from hf_localattn.reproduction.checks import check_trials
from hf_localattn.reproduction.estimate import estimates
from hf_localattn.reproduction.figures import draw_figure
from hf_localattn.reproduction.grid_search import GridSearch
from hf_localattn.reproduction.plan import Selection, Trial, plan
from hf_localattn.reproduction.report import Report
from hf_localattn.reproduction.runs import Runner

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
        selection: rows and tasks of a table.
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
    table = selection.table
    runner = Runner(output / RUNS, keep_models=keep_models)
    trials = plan(selection)
    if not trials:
        raise ValueError(f"Nothing of this selection of {table.name} can be run: its numbers are quoted.")
    print(f"{table.title} ({table.source})")
    left = [trial for trial in trials if runner.result_of(trial) is None]
    if dry_run:
        _show(trials, left)
    check_trials(runner, trials if searches else left, searches=searches)
    search = GridSearch(runner, given=selection.overrides.arguments) if searches else None
    for line in estimates(runner, left, trials, search):
        print(line)
    if dry_run:
        return
    if search is not None:
        trials = [search.best(trial) for trial in tqdm(trials, desc="searching", unit="run")]
    else:  # a search does not know the best settings of other rows
        selection, known = _with_finished_baselines(selection, runner)
        trials = [*known, *trials]
    report = Report(selection, output, [] if search is None else list(search.found.values()))
    with tqdm(trials, unit="run") as bar:
        for trial in bar:
            bar.set_postfix_str(trial.name)
            report.add(trial, runner.run(trial), runner.model_of(trial))
    report.show()
    if table.figure is not None:
        print(f"Drew {draw_figure(table, report.runs, output)}.")


def _with_finished_baselines(selection: Selection, runner: Runner) -> tuple[Selection, list[Trial]]:
    """Add the rows with which those of a selection are compared and that have finished runs; return these runs too."""
    names = {row.name for row in selection.rows}
    compared = {row.baseline for row in selection.rows if row.baseline is not None} - names
    known = [trial for trial in plan(selection.with_rows(compared)) if runner.result_of(trial) is not None]
    return selection.with_rows(names | {trial.row.name for trial in known}), known


def _show(trials: Sequence[Trial], left: Sequence[Trial]) -> None:
    """Print the command of each row and task, of its first run."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.key, []).append(trial)
    for (row, task), own in groups.items():
        done = len(own) - sum(trial in left for trial in own)
        runs = f"{len(own)} run{'s' * (len(own) > 1)}{f', {done} done' if done else ''}"
        print(f"{row}, {task} ({runs}):\n  {own[0].command}")
