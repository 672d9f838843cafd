"""Train the models of a table of the papers, and compare their scores with the published ones.

Repeat the command to resume it. Tables share runs with the same settings. Without TABLE, all tables are listed.
`python -m reproduction negation --help` tells about models that find negation in texts of several kinds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hf_localattn.errors import exit_on_user_error
from hf_localattn.extras import require
from hf_localattn.studies.processes import RunFailed
from hf_localattn_command import exit_on_interrupt
from reproduction import loop
from reproduction.request import select


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
        *("--data",),
        metavar="CORPUS=FOLDER",
        nargs="+",
        default=[],
        help="folders of local data, by default from the Hub; 'samples' for a few rows of the package",
    )
    add("--test-corpora", metavar="CORPUS", nargs="*", help="further test corpora of the table; none without a value")
    add(
        *("--args",),
        metavar="ARGUMENT=VALUE",
        nargs="+",
        default=[],
        help="arguments of the training scripts that override the table's, such as num_train_epochs=1",
    )
    add("--search", action="store_true", help="search the paper's grid of hyperparameters for each row first")
    add("--keep-models", action="store_true", help="keep the trained models in the output folder")
    add("--dry-run", action="store_true", help="only show the runs")
    add("--workers", metavar="N", type=int, default=1, help="runs or trials at a time, each on one GPU or its cores")
    add("--ray-address", metavar="ADDRESS", help="Ray cluster for the runs: auto, HOST:PORT or local")
    add("-o", "--output-dir", metavar="FOLDER", type=Path, default=Path("reproduced"), help="default: reproduced")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Run the command. User errors print one line to stderr and exit with code 2."""
    words = sys.argv[1:] if words is None else words
    if list(words[:1]) == ["negation"]:
        from reproduction import negation

        with exit_on_interrupt(resumable=True), exit_on_user_error():
            negation.main(words[1:])
        return
    own = parser().parse_args(words)
    with exit_on_interrupt(resumable=True), exit_on_user_error(), exit_on_user_error(RunFailed):
        if own.table is None:
            loop.list_tables()
            return
        require("train", "`python -m reproduction`")
        selection = select(
            own.table,
            rows=own.rows,
            tasks=own.tasks,
            num_runs=own.num_runs,
            max_samples=own.max_samples,
            backbone=own.backbone,
            parser=own.parser,
            data=own.data,
            test_corpora=None if own.test_corpora is None else tuple(own.test_corpora),
            arguments=own.args,
        )
        loop.reproduce(
            selection,
            own.output_dir,
            searches=own.search,
            keep_models=own.keep_models,
            dry_run=own.dry_run,
            workers=own.workers,
            ray_address=own.ray_address,
        )


if __name__ == "__main__":
    main()
