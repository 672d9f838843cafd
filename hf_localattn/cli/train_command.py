"""Arguments of `hf-localattn train`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from typer import Argument

from hf_localattn.cli.network import look_for_hub
from hf_localattn.errors import end_on_interrupt, exit_on_user_error
from hf_localattn.extras import require
from hf_localattn.names import NO_FAMILY, SCRIPTS, family_notes, find_family, find_files


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
) -> dict[str, float]:
    """Fine-tune, evaluate or apply a model: `hf-localattn train qa ...` is `python run_qa.py ...`.

    Repeat the command to resume an interrupted run.
    """
    if script not in SCRIPTS:
        raise ValueError(f"There is no script {script!r}. Choose one of {', '.join(SCRIPTS)}.")
    with exit_on_user_error():
        options = _read_options(script, arguments or [])
    with end_on_interrupt():
        from hf_localattn import tasks
        from hf_localattn.studies.command import run_task
    return run_task(getattr(tasks, SCRIPTS[script]), options)


def _read_options(script: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the options by name. What can be wrong with them is found before torch is imported, if possible."""
    from hf_localattn.settings.data import DATA_ARGUMENTS, SPLITS
    from hf_localattn.settings.header import check_columns
    from hf_localattn.settings.model import ModelArguments
    from hf_localattn.settings.option import options_of
    from hf_localattn.settings.reading import read_options
    from hf_localattn.settings.recipes import add_recipe
    from hf_localattn.settings.training import NewGenerationArguments, NewTrainingArguments

    classes = (
        ModelArguments,
        DATA_ARGUMENTS[script],
        NewGenerationArguments if script == "qg" else NewTrainingArguments,
    )
    options = read_options(classes, words, f"hf-localattn train {script}")  # which ends at --help
    require("train", "Training")
    options = add_recipe(script, options)
    family = options.get("family")
    if isinstance(family, str):
        require_parser(find_family(family, NO_FAMILY), options.get("local_config") or ())
    for name, option in options_of(*classes).items():
        if option.extra is not None and options.get(name) is not None:
            require(option.extra, f"--{name}")
    for split in SPLITS:
        if isinstance(file := options.get(f"{split}_file"), str):
            file = find_files(file)
            if split == "train":
                check_columns(file, options, tabs=script != "ner")
    look_for_hub(*(options.get(name) for name in ("backbone", "model_name_or_path", "dataset_name")))
    return options


def require_parser(family: str, fields: Sequence[str]) -> None:
    """Raise `ImportError` without spaCy if a family with these fields (`name=value` strings) reads parses."""
    notes = {} if family == NO_FAMILY else family_notes(family)
    if "parser_unless" in notes and not {*notes["parser_unless"]} & {*fields}:
        require("parser", notes["title"])
