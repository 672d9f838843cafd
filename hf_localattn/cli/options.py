"""Options that several commands share."""

from typing import Annotated

from typer import Option

ASSIGNMENT = "NAME=VALUE"

Settings = Annotated[
    list[str] | None,
    Option(
        "--config",
        metavar=ASSIGNMENT,
        help="A setting of the tokenizer, such as parser=FOLDER for SLA. Repeat the option for more.",
    ),
]
