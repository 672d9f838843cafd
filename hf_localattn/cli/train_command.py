"""Arguments of `hf-localattn train`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Annotated

from typer import Argument

from hf_localattn.errors import exit_on_user_error
from hf_localattn.extras import require
from hf_localattn.names import PLAIN, SCRIPTS, family_notes, find_family, find_files
from hf_localattn.parsing import read_json
from hf_localattn_command import end_on_interrupt

FILES = ("train_file", "validation_file", "test_file")
"""Options with data files."""

EXTRA_OF = {"search_space": "search", "lookahead_steps": "lookahead", "ray_address": "cluster"}
"""Options that need an extra besides `train`."""


def train(
    script: Annotated[
        str,
        Argument(
            metavar="SCRIPT",
            help="glue: text classification and regression; ner: token classification and negation scopes; qa:"
            " extractive question answering; qg: question generation; swag: multiple choice.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        Argument(metavar="[ARGUMENTS]...", help="Arguments of the script; --help lists them."),
    ] = None,
) -> None:
    """Fine-tune, evaluate or apply a model: `hf-localattn train qa ...` is `python run_qa.py ...`.

    Repeat the command to resume an interrupted run.
    """
    if script not in SCRIPTS:
        raise ValueError(f"There is no script {script!r}. Choose one of {', '.join(SCRIPTS)}.")
    run_script(script, arguments or [])


def run_script(name: str, arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run a training script and return all metrics.

    Args:
        name: one of `SCRIPTS`.
        arguments: words of the command line, or only the path of a .json file of options. Defaults to `sys.argv[1:]`.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("family", *FILES, *EXTRA_OF):
        parser.add_argument(f"--{option}", nargs="?")
    parser.add_argument("--local_config", nargs="*")
    with exit_on_user_error():
        require("train", "Training")
        is_file = len(words) == 1 and words[0].endswith(".json")
        given = read_json(words[0]) if is_file else vars(parser.parse_known_args(words)[0])
        if given.get("family") is not None:
            require_parser(find_family(given["family"], PLAIN), given.get("local_config") or ())
        for option, extra in EXTRA_OF.items():
            if given.get(option) is not None:
                require(extra, f"--{option}")
        for path in (given.get(option) for option in FILES):
            if isinstance(path, str):
                find_files(path)
    # Imported here, because a misspelt family or a missing file must be an error at once.
    with end_on_interrupt():
        from hf_localattn import tasks
        from hf_localattn.studies import command
    return command.run_script(getattr(tasks, SCRIPTS[name]), words)


def require_parser(family: str, fields: Sequence[str]) -> None:
    """Raise `ImportError` without spaCy if a family with these fields (`name=value` strings) reads parses."""
    notes = {} if family == PLAIN else family_notes(family)
    if "parser_unless" in notes and not {*notes["parser_unless"]} & {*fields}:
        require("parser", notes["title"])
