"""Train the models of a table of the papers, and compare their scores with the published ones.

Repeat the command to resume it. Tables share runs with the same settings. Without TABLE, all tables are listed.
`python -m reproduction negation --help` tells about models that find negation in texts of several kinds.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from hf_localattn.claims import claimed
from hf_localattn.errors import exit_on_interrupt, exit_on_user_error
from hf_localattn.files import atomic_write, remove_leftovers
from hf_localattn.inspection.draw import picture
from hf_localattn.studies.processes import RunFailed
from reproduction.figures import figure_of
from reproduction.plan import Selection, check_runs, plan, select
from reproduction.report import write_report
from reproduction.runs import best_setting, execute, result_of
from reproduction.tables import load_table, table_names


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
    data = "folders of local data, by default from the Hub; 'samples' for a few rows of the package"
    add("--data", metavar="CORPUS=FOLDER", nargs="+", default=[], help=data)
    add("--test-corpora", metavar="CORPUS", nargs="*", help="further test corpora of the table; none without a value")
    arguments = "arguments of the training scripts that override the table's, such as num_train_epochs=1"
    add("--args", metavar="ARGUMENT=VALUE", nargs="+", default=[], help=arguments)
    add("--search", action="store_true", help="search the paper's grid of hyperparameters for each row first")
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
        if words[:1] == ["negation"]:
            from reproduction import negation

            return negation.main(words[1:])
        options = vars(parser().parse_args(words))
        for name in ("num_runs", "max_samples", "workers"):
            if options[name] is not None and options[name] < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1; got {options[name]}.")
        if (table := options.pop("table")) is None:
            return list_tables()
        output, searches, dry_run = (options.pop(name) for name in ("output_dir", "search", "dry_run"))
        place = {name: options.pop(name) for name in ("workers", "ray_address")}
        how = {"searches": searches, "dry_run": dry_run, "keep_models": options.pop("keep_models")}
        reproduce(select(table, **options), output, **how, **place)


def reproduce(
    selection: Selection, output: Path, *, searches: bool, dry_run: bool, keep_models: bool, **place: Any
) -> None:
    """Run the unfinished runs of a table, and write `TABLE.json`, `TABLE.md` and, for a figure, `TABLE.png`.

    All is checked before anything is run. With `searches`, the paper's grid is searched first for each row and task,
    with the first seed. `place` has the workers and the Ray address. If runs fail, the others are reported.
    """
    output, table = output.resolve(), selection.table
    runs = plan(selection, output / "runs")
    if not runs:
        raise ValueError(f"No such row of {table.name} can be run: the paper quotes their numbers.")
    print(f"{table.title} ({table.source})")
    left = [run for run in runs if result_of(run) is None]
    firsts = [run for run in runs if run.number == 1]
    for run in firsts if dry_run else ():
        print(f"{', '.join(run.key)}:\n  {run.command}")
    check_runs(runs if searches else left)
    print(f"{len(left)} of {len(runs)} runs are left.")
    if dry_run:
        return
    path, found, failed = output / f"{table.name}.json", [], []
    with claimed(output):
        remove_leftovers(output)
        if searches:
            tried = tqdm(firsts, "searching", unit="row")
            best = {run.key: best_setting(run, selection.args, **place) for run in tried}
            found = [search for _, search in best.values() if search is not None]
            runs = [dataclasses.replace(run, options={**run.options, **best[run.key][0]}) for run in runs]
            left = [run for run in runs if result_of(run) is None]
        records = write_report(selection, path, runs, found)
        for run, error in execute(left, keep_models=keep_models, **place):
            if error is None:
                records = write_report(selection, path, runs, found)
            else:
                failed.append(f"{run.name}: {error}")
        if failed:
            raise RunFailed(f"Runs without a result: {'; '.join(failed)}. Repeat the command to run them again.")
        print(path.with_suffix(".md").read_text(encoding="utf-8"))
        for run in runs:
            if (run.folder / "config.json").is_file():
                print(f"{run.row.name}, {run.task.name}, run {run.number}: {run.folder}")
        print(f"Wrote {path.with_suffix('.md')} and .json.")
        if table.figure is not None and (figure := figure_of(table, records)) is not None:
            atomic_write(path.with_suffix(".png"), picture(figure, "png"))
            print(f"Drew {path.with_suffix('.png')}.")


def list_tables() -> None:
    """Print all tables with their rows and tasks."""
    width = max(map(len, table_names()))
    for table in map(load_table, table_names()):
        print(f"{table.name:{width}}  {table.title}")
        print(f"{'':{width}}    rows: {', '.join(table.rows)}")
        print(f"{'':{width}}    tasks (corpora): {', '.join(f'{t.name} ({t.corpus})' for t in table.tasks.values())}")


if __name__ == "__main__":
    main()
