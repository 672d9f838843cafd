"""Train the models of a table of the papers, and compare their scores with the published ones.

Repeat the command to resume it. Tables share runs with the same settings. Without TABLE, all tables are listed.
`python -m reproduction negation --help` tells about models that find negation in texts of several kinds, and
`python -m reproduction few-rows --help` about the shortest command on few rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pandas import DataFrame
from tqdm.auto import tqdm

from hf_localattn.errors import exit_on_interrupt, exit_on_user_error
from hf_localattn.files import atomic_write, claimed, remove_leftovers
from hf_localattn.inspection.draw import picture
from hf_localattn.studies.processes import RunFailed
from reproduction.figures import figure_of
from reproduction.model_figures import TrainedModel, model_figure_of, read_checkpoints
from reproduction.plan import Selection, TableRun, check_runs, plan, select
from reproduction.report import write_report
from reproduction.runs import best_setting, execute, has_model, result_of
from reproduction.tables import load_table, table_names

COMMANDS = {"negation": "reproduction.negation", "few-rows": "reproduction.few_rows"}
"""Modules of the commands that make no table."""

SELECTING = (
    "rows",
    "tasks",
    "num_runs",
    "max_samples",
    "backbone",
    "parser",
    "data",
    "test_corpora",
    "args",
)
"""Options that select runs and their settings."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("table", metavar="TABLE", nargs="?", help="table or figure, such as cool-4 or sam-figure-3")
    add("--rows", metavar="ROW", nargs="+", help="run only these rows")
    add("--tasks", metavar="TASK", nargs="+", help="run only these columns")
    add("--num-runs", metavar="N", type=int, help="number of runs, or folds, of each row; by default the paper's")
    add("--max-samples", metavar="N", type=int, help="use only the first N rows of each split")
    add("--backbone", help="Hub id or folder of the backbone, or 'tiny'; by default the paper's")
    add("--parser", help="spaCy pipeline for SLA, or 'tiny'")
    add(
        "--data",
        metavar="CORPUS=FOLDER",
        nargs="+",
        default=[],
        help="folders of local data, by default from the Hub; 'samples' for a few rows of the package",
    )
    add(
        "--test-corpora",
        metavar="CORPUS",
        nargs="*",
        help="further test corpora of the table; none without a value",
    )
    add(
        "--args",
        metavar="ARGUMENT=VALUE",
        nargs="+",
        default=[],
        help="arguments of the training scripts that override the table's, such as num_train_epochs=1",
    )
    add("--search", action="store_true", help="search the paper's grid of hyperparameters for each row first")
    add(
        "--checkpoints",
        metavar="ROW[:TASK]=FOLDER",
        nargs="+",
        help="draw a figure of models from trained checkpoints, such as several seeds of a row, and train nothing",
    )
    add("--keep-models", action="store_true", help="keep the trained models in the output folder")
    add("--dry-run", action="store_true", help="only show the runs")
    add("--workers", metavar="N", type=int, default=1, help="runs or trials at a time, each on one GPU or its cores")
    add("--ray-address", metavar="ADDRESS", help="Ray cluster for the runs: auto, HOST:PORT or local")
    add("-o", "--output-dir", metavar="FOLDER", type=Path, default=Path("reproduced"), help="default: reproduced")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Run the command. User errors print one line to stderr and exit with code 2."""
    words = list(sys.argv[1:] if words is None else words)
    with exit_on_interrupt(resumable=True), exit_on_user_error(), exit_on_user_error(RunFailed):
        if words and words[0] in COMMANDS:
            import_module(COMMANDS[words[0]]).main(words[1:])
            return
        options = parser().parse_args(words)
        for name in ("num_runs", "max_samples", "workers"):
            value = getattr(options, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1; got {value}.")
        if options.table is None:
            return list_tables()
        reproduce(selection_of(options), options)


def selection_of(options: argparse.Namespace) -> Selection:
    """Return the selection for the options of a command line."""
    return select(options.table, **{name: getattr(options, name) for name in SELECTING})


def reproduce(selection: Selection, options: argparse.Namespace) -> None:
    """Run the unfinished runs of a table, and write `TABLE.json` and `.md`, and for a figure `.png` and `.csv`.

    All is checked before anything is run. With `--search`, the paper's grid is searched first for each row and task,
    with the first seed. If runs fail, the others are reported. With `--checkpoints`, only the figure is drawn.
    """
    output = options.output_dir.resolve()
    place = {"workers": options.workers, "ray_address": options.ray_address}
    table = selection.table
    path = output / f"{table.name}.json"
    if options.checkpoints is not None:
        models = read_checkpoints(selection, options.checkpoints)
        with claimed(output):
            return _write_figure(path, model_figure_of(selection, models))
    runs = plan(selection, output / "runs")
    if not runs:
        raise ValueError(f"No such row of {table.name} can be run: the paper quotes their numbers.")
    print(f"{table.title} ({table.source})")
    if options.dry_run:
        for run in runs:
            if run.index == 1:
                print(f"{', '.join(run.key)}:\n  {run.command}")
    needs_models = table.figure is not None and table.figure.is_of_models
    left = _unfinished(runs, needs_models)
    check_runs(runs if options.search else left)
    tests = sum(len(run.tests) for run in left)
    with_tests = f", with {tests} tests on other corpora" if tests else ""
    print(f"{len(left)} of {len(runs)} runs are left{with_tests}.")
    if options.dry_run:
        return
    with claimed(output):
        remove_leftovers(output)
        results: list[Any] = []
        if options.search:
            runs, results = _search(selection, runs, **place)
        records = write_report(selection, path, runs, results)
        failures = []
        keep_models = options.keep_models or needs_models
        for run, error in execute(_unfinished(runs, needs_models), keep_models=keep_models, **place):
            if error is None:
                records = write_report(selection, path, runs, results)
            else:
                failures.append(f"{run.name}: {error}")
        if failures:
            raise RunFailed(f"Runs without a result: {'; '.join(failures)}. Repeat the command to run them again.")
        print(path.with_suffix(".md").read_text(encoding="utf-8"))
        models = [TrainedModel(run.row, run.task, run.folder) for run in runs if has_model(run)]
        for run in filter(has_model, runs):
            print(f"{run.row.name}, {run.task.name}, run {run.index}: {run.folder}")
        print(f"Wrote {path.with_suffix('.md')} and .json.")
        if needs_models:
            _write_figure(path, model_figure_of(selection, models))
        elif table.figure is not None:
            _write_figure(path, figure_of(table, records))


def _write_figure(path: Path, drawn: tuple[Any, DataFrame] | None) -> None:
    """Write the picture and the data of a figure beside the file of a table, and show it in the table's report."""
    if drawn is None:
        return
    figure, data = drawn
    atomic_write(path.with_suffix(".csv"), data.to_csv(index=False))
    atomic_write(path.with_suffix(".png"), picture(figure, "png"))
    report = path.with_suffix(".md")
    image = f"![{path.stem}]({path.stem}.png)"
    text = report.read_text(encoding="utf-8") if report.is_file() else image
    if image not in text:
        atomic_write(report, f"{text}\n{image}\n")
    print(f"Drew {path.with_suffix('.png')}, with its data in .csv.")


def _unfinished(runs: Sequence[TableRun], needs_models: bool) -> list[TableRun]:
    return [run for run in runs if result_of(run) is None or (needs_models and not has_model(run))]


def _search(selection: Selection, runs: Sequence[TableRun], **place: Any) -> tuple[list[TableRun], list[Any]]:
    """Search the grid of each row and task; return the runs with the best settings, and the results."""
    settings = {}
    results = []
    firsts = [run for run in runs if run.index == 1]
    for run in tqdm(firsts, "searching", unit="row"):
        settings[run.key], result = best_setting(run, selection.args, **place)
        if result is not None:
            results.append(result)
    best_runs = [dataclasses.replace(run, options={**run.options, **settings[run.key]}) for run in runs]
    return best_runs, results


def list_tables() -> None:
    """Print all tables with their rows and tasks."""
    width = max(map(len, table_names()))
    margin = " " * width
    for table in map(load_table, table_names()):
        tasks = (f"{task.name} ({task.corpus})" for task in table.tasks.values())
        print(f"{table.name:{width}}  {table.title}")
        print(f"{margin}    rows: {', '.join(table.rows)}")
        print(f"{margin}    tasks (corpora): {', '.join(tasks)}")


if __name__ == "__main__":
    main()
