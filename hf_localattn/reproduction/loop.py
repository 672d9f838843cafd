"""The loop of a table: its runs are planned, checked, run or taken up again, and reported as they are finished."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm.auto import tqdm

from hf_localattn.claims import claimed
from hf_localattn.errors import listed
from hf_localattn.files import remove_leftovers, writing
from hf_localattn.reproduction.checks import check_trials
from hf_localattn.reproduction.estimate import estimates
from hf_localattn.reproduction.figures import draw_figure
from hf_localattn.reproduction.grid_search import GridSearch
from hf_localattn.reproduction.plan import Selection, Trial, plan
from hf_localattn.reproduction.report import Report
from hf_localattn.reproduction.runs import RunJob, Runner
from hf_localattn.studies.executors import TrialFailed, Workers, executor_elsewhere
from hf_localattn.studies.ray_executor import RayCluster

RUNS = "runs"

WORKER = (sys.executable, "-P", "-m", "hf_localattn.reproduction.worker")
"""The command that starts a worker process for runs."""


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
    """Run what is not yet run of a table, and write `TABLE.json`, `TABLE.md` and, of a figure, `TABLE.png`.

    Args:
        selection: rows and tasks of a table.
        output: folder; its runs serve all tables.
        searches: search the paper's grid for each row and task first, with the first seed.
        keep_models: leave the trained models there.
        dry_run: only show the plan.
        workers: how many runs, or trials of a search, are at work at a time.
        ray_address: of a Ray cluster that runs them.

    Raises:
        TrialFailed: runs failed in workers; the others are reported.
        ValueError, OSError, ImportError: something cannot be run here, or another process is at the output
            folder; before anything is run.
    """
    elsewhere = Elsewhere(workers, ray_address) if workers > 1 or ray_address is not None else None
    if dry_run:
        _reproduce(selection, output, elsewhere, searches=searches, keep_models=keep_models, dry_run=True)
        return
    with claimed(output), writing(output):
        remove_leftovers(output)
        _reproduce(selection, output, elsewhere, searches=searches, keep_models=keep_models, dry_run=False)


@dataclass(frozen=True)
class Elsewhere:
    """Options that start workers or use a Ray cluster.

    Attributes:
        workers: how many runs are at work at a time; with a cluster 1 leaves it to the cluster.
        ray_address: of a Ray cluster; None for processes of this machine.
    """

    workers: int
    ray_address: str | None = None

    def executor(self, folder: Path, *, use_cpu: bool) -> Workers | RayCluster:
        """Return what runs jobs; logs of workers go to a folder."""
        return executor_elsewhere(self.workers, self.ray_address, folder, use_cpu=use_cpu, command=WORKER)


def _reproduce(
    selection: Selection,
    output: Path,
    elsewhere: Elsewhere | None,
    *,
    searches: bool,
    keep_models: bool,
    dry_run: bool,
) -> None:
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
    spread = {} if elsewhere is None else dataclasses.asdict(elsewhere)
    search = GridSearch(runner, given=selection.overrides.arguments, spread=spread) if searches else None
    executor = None
    if elsewhere is not None and not dry_run:  # a cluster that does not answer is better told now
        executor = elsewhere.executor(output, use_cpu=all(trial.arguments.get("use_cpu") for trial in trials))
    for line in estimates(runner, left, trials, search):
        print(line)
    if elsewhere is not None:
        timed = sum(trial.is_timed for trial in left)
        print(f"That is one run at a time. {timed or 'No'} of {len(left)} runs measure times, and run here, alone.")
    if dry_run:
        return
    if search is not None:
        trials = [search.best(trial) for trial in tqdm(trials, desc="searching", unit="run")]
    else:  # a search does not know the best settings of other rows
        selection, known = _with_finished_baselines(selection, runner)
        trials = [*known, *trials]
    failed = {} if executor is None else _run_elsewhere(executor, table.name, runner, trials)
    report = Report(selection, output, [] if search is None else list(search.found.values()))
    if failed:
        trials = [trial for trial in trials if runner.folder_of(trial) not in failed]
    with tqdm(trials, unit="run") as bar:
        for trial in bar:
            bar.set_postfix_str(trial.name)
            report.add(trial, runner.run(trial), runner.model_of(trial))
    if failed:
        reasons = listed(list(failed.values()))
        raise TrialFailed(f"Runs without a result: {reasons}. The same command takes them up again.")
    report.show()
    if table.figure is not None:
        print(f"Drew {draw_figure(table, report.runs, output)}.")


def _run_elsewhere(
    executor: Workers | RayCluster, table: str, runner: Runner, trials: Sequence[Trial]
) -> dict[Path, str]:
    """Run what is left of trials in other processes, and return the reasons of those that failed, by folder.

    Those that measure times are left to this process: nothing else should be at work then.
    """
    left = [trial for trial in trials if not trial.is_timed and runner.result_of(trial) is None]
    every = [RunJob(table, trial, runner.folder, runner.keep_models) for trial in left]
    jobs = {job.folder: job for job in every}  # rows may share a run
    failed: dict[Path, str] = {}
    if not jobs:
        return failed
    with tqdm(total=len(jobs), unit="run") as bar:
        for outcome in executor.run(jobs.values()):
            bar.set_postfix_str(outcome.job.trial.name)
            bar.update()
            if outcome.error is not None:
                failed[outcome.job.folder] = f"{outcome.job.trial.name}: {outcome.error}"
    return failed


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
