"""Options that several commands share."""

from collections.abc import Sequence
from typing import Annotated

from typer import Option

from hf_localattn.extras import require
from hf_localattn.names import PLAIN, family_notes

ASSIGNMENT = "NAME=VALUE"

Settings = Annotated[
    list[str] | None,
    Option(
        "--config",
        metavar=ASSIGNMENT,
        help="A setting of the tokenizer, such as parser=FOLDER for SLA. Repeat the option for more.",
    ),
]


def require_parser(family: str, fields: Sequence[str]) -> None:
    """Raise `ImportError` without spaCy if a family with these fields (`name=value` strings) reads parses."""
    notes = {} if family == PLAIN else family_notes(family)
    if "parser_unless" in notes and not {*notes["parser_unless"]} & {*fields}:
        require("parser", notes["title"])
