"""`hf-localattn reproduce`: the command's arguments."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("table", nargs="?", help="such as cool-4 or sam-figure-3; without one all are listed")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="only these columns")
    parser.add_argument("--seeds", type=int, metavar="N", help="runs of each row, or folds; by default the paper's")
    parser.add_argument("--limit", type=int, metavar="N", help="use only so many rows of each split")
    parser.add_argument("--backbone", help="Hub id or folder in place of the paper's, or 'tiny'")
    parser.add_argument("--parser", help="spaCy pipeline for SLA, or 'tiny'")
    parser.add_argument(
        "--data",
        nargs="+",
        default=[],
        metavar="CORPUS=FOLDER",
        help="local data in place of the Hub's; 'samples' for the few rows that ship",
    )
    parser.add_argument(
        "--also", nargs="*", metavar="CORPUS", help="further test corpora, by the table's names; none if none is named"
    )
    parser.add_argument(
        "--set",
        dest="arguments",
        nargs="+",
        default=[],
        metavar="ARGUMENT=VALUE",
        help="of the training scripts, in place of the recipe's, such as num_train_epochs=1",
    )
    parser.add_argument("--search", action="store_true", help="search the paper's grid for each row first")
    parser.add_argument("--keep-models", action="store_true", help="leave the trained models in the output folder")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be run, and how long it takes")
    parser.add_argument("-o", "--output", type=Path, default=Path("reproduced"), help="folder; by default reproduced")


def run(arguments: argparse.Namespace) -> None:
    """`hf-localattn reproduce`."""
    from hf_localattn.reproduction.request import run_request  # slow to import: other commands need not wait for it

    run_request(arguments)
