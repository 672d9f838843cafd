"""`hf-localattn reproduce`: the command's arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hf_localattn.cli.grammar import several
from hf_localattn.errors import exit_on_user_error


def reproduce(
    table: Annotated[
        str | None,
        Argument(metavar="TABLE", help="Table or figure, such as cool-4 or sam-figure-3; without one all are listed."),
    ] = None,
    rows: Annotated[list[str] | None, several("--rows", "ROW...", "Run only these rows.")] = None,
    tasks: Annotated[list[str] | None, several("--tasks", "TASK...", "Run only these columns.")] = None,
    num_runs: Annotated[
        int | None, Option(metavar="N", help="Runs of each row, or folds; by default the paper's.")
    ] = None,
    max_samples: Annotated[int | None, Option(metavar="N", help="Use only so many rows of each split.")] = None,
    backbone: Annotated[str | None, Option(help="Hub id or folder in place of the paper's, or 'tiny'.")] = None,
    parser: Annotated[str | None, Option(help="spaCy pipeline for SLA, or 'tiny'.")] = None,
    data: Annotated[
        list[str] | None,
        several(
            "--data",
            "CORPUS=FOLDER...",
            "Local data in place of the Hub's; 'samples' for the few rows that ship.",
        ),
    ] = None,
    test_corpora: Annotated[
        list[str] | None,
        several("--test-corpora", "[CORPUS]...", "Further test corpora, by the table's names; none if none is named."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        several(
            "--args",
            "ARGUMENT=VALUE...",
            "Arguments of the training scripts, in place of the recipe's, such as num_train_epochs=1.",
        ),
    ] = None,
    search: Annotated[bool, Option("--search", help="Search the paper's grid for each row first.")] = False,
    keep_models: Annotated[
        bool, Option("--keep-models", help="Leave the trained models in the output folder.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be run, and how long it takes.")] = False,
    workers: Annotated[
        int, Option(metavar="N", help="Runs, or trials of a search, at a time: one on each GPU, or sharing the cores.")
    ] = 1,
    ray_address: Annotated[
        str | None, Option(metavar="ADDRESS", help="Ray cluster that runs them: auto, HOST:PORT or local.")
    ] = None,
    output_dir: Annotated[Path, Option("-o", "--output-dir", metavar="FOLDER", help="Folder to write.")] = Path(
        "reproduced"
    ),
) -> None:
    """Train what a table of the papers compares, and set what is measured next to what was published.

    Given again it goes on where it was; the same runs serve all tables.
    """
    # Not before: `hf-localattn --help` is to answer at once.
    from hf_localattn.reproduction import loop
    from hf_localattn.reproduction.request import select
    from hf_localattn.studies.executors import TrialFailed

    if table is None:
        loop.list_tables()
        return
    selection = select(
        table,
        rows=rows,
        tasks=tasks,
        num_runs=num_runs,
        max_samples=max_samples,
        backbone=backbone,
        parser=parser,
        data=data or (),
        test_corpora=None if test_corpora is None else tuple(filter(None, test_corpora)),
        arguments=arguments or (),
    )
    with exit_on_user_error(TrialFailed):
        loop.reproduce(
            selection,
            output_dir,
            searches=search,
            keep_models=keep_models,
            dry_run=dry_run,
            workers=workers,
            ray_address=ray_address,
        )
