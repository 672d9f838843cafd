"""Arguments of `hf-localattn train`."""

from __future__ import annotations

import importlib
from typing import Annotated

from typer import Argument

SCRIPTS = {
    "glue": "TextClassification",
    "ner": "TokenClassification",
    "qa": "QuestionAnswering",
    "qg": "QuestionGeneration",
    "swag": "MultipleChoice",
}
"""Name of each training script, without `run_`, and its class in `hf_localattn.tasks`."""

UNPARSED = {"allow_interspersed_args": False}
"""Context settings of the command: options after the script's name belong to the script."""


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
    tasks = importlib.import_module("hf_localattn.tasks")
    command = importlib.import_module("hf_localattn.studies.command")
    command.run_script(getattr(tasks, SCRIPTS[script]), arguments or [])
