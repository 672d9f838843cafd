"""Arguments of `hf-localattn reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hf_localattn.cli.grammar import several
from hf_localattn.errors import exit_on_user_error
from hf_localattn.extras import require_train
from hf_localattn.names import check_table


def reproduce(
    table: Annotated[
        str | None,
        Argument(metavar="TABLE", help="Table or figure, such as cool-4 or sam-figure-3; by default list all."),
    ] = None,
    rows: Annotated[list[str] | None, several("--rows", "ROW...", "Run only these rows.")] = None,
    tasks: Annotated[list[str] | None, several("--tasks", "TASK...", "Run only these columns.")] = None,
    num_runs: Annotated[
        int | None, Option(metavar="N", help="Number of runs, or folds, of each row; by default the paper's.")
    ] = None,
    max_samples: Annotated[int | None, Option(metavar="N", help="Use only the first N rows of each split.")] = None,
    backbone: Annotated[
        str | None, Option(help="Hub id or folder of the backbone, or 'tiny'; by default the paper's.")
    ] = None,
    parser: Annotated[str | None, Option(help="spaCy pipeline for SLA, or 'tiny'.")] = None,
    data: Annotated[
        list[str] | None,
        several(
            "--data",
            "CORPUS=FOLDER...",
            "Folders of local data; by default data come from the Hub. 'samples' for a few rows of this package.",
        ),
    ] = None,
    test_corpora: Annotated[
        list[str] | None,
        several("--test-corpora", "[CORPUS]...", "Further test corpora of the table; without a value none of them."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        several(
            "--args",
            "ARGUMENT=VALUE...",
            "Arguments of the training scripts that override the table's, such as num_train_epochs=1.",
        ),
    ] = None,
    search: Annotated[
        bool, Option("--search", help="Search the paper's grid of hyperparameters for each row first.")
    ] = False,
    keep_models: Annotated[
        bool, Option("--keep-models", help="Keep the trained models in the output folder.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show the runs and their estimated time.")] = False,
    workers: Annotated[
        int,
        Option(
            metavar="N",
            help="Number of runs or search trials at a time, each on one GPU, or on a share of the cores.",
        ),
    ] = 1,
    ray_address: Annotated[
        str | None, Option(metavar="ADDRESS", help="Ray cluster for the runs: auto, HOST:PORT or local.")
    ] = None,
    output_dir: Annotated[Path, Option("-o", "--output-dir", metavar="FOLDER", help="Output folder.")] = Path(
        "reproduced"
    ),
) -> None:
    """Train the models of a table of the papers, and compare their scores with the published ones.

    Repeat the command to resume it. Tables share runs with the same settings.
    """
    if table is not None:
        check_table(table)
    # Imported here, because `hf-localattn --help` must be fast.
    from hf_localattn.reproduction import loop
    from hf_localattn.reproduction.request import select
    from hf_localattn.studies.executors import TrialFailed

    if table is None:
        loop.list_tables()
        return
    require_train("`hf-localattn reproduce`")
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
