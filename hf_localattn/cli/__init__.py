"""The `hf-localattn` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer

from hf_localattn import __version__
from hf_localattn.cli import checkpoint_commands, model_commands
from hf_localattn.cli.train_command import train
from hf_localattn.errors import exit_on_user_error
from hf_localattn.negation.command import negation

NAME = "hf-localattn"

app = typer.Typer(
    help="Local attention for pretrained encoders.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"{NAME} {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


app.command("init", short_help="Add new local attention layers to a pretrained backbone.")(checkpoint_commands.init)
_of_the_script = {"allow_interspersed_args": False}  # options after the script's name
app.command("train", context_settings=_of_the_script, short_help="Fine-tune, evaluate or apply a model.")(train)
app.command("card", short_help="Write or renew the model card of a checkpoint folder.")(checkpoint_commands.card)
app.command("push", short_help="Upload a checkpoint folder to the Hub.")(checkpoint_commands.push)
app.command("verify", short_help="Compare the code files of a checkpoint with this package's.")(
    checkpoint_commands.verify
)
_of_a_script_too = {"allow_extra_args": True, "ignore_unknown_options": True}  # after --validation_file
app.command(
    "export",
    context_settings=_of_a_script_too,
    short_help="Write a checkpoint as an ONNX graph with its tokenizer.",
)(model_commands.export)
app.command("inspect", short_help="Show the attention of a checkpoint on texts.")(model_commands.inspect)
app.command("compare", short_help="Test the difference between two results.")(model_commands.compare)
app.command("negation", short_help="Find cues of negation in texts, and their scopes.")(negation)
app.command("demo", short_help="Open a page that asks a checkpoint.")(model_commands.demo)


def _part_of(app: typer.Typer, names: Sequence[str]) -> typer.Typer:
    """Return an application with the named commands alone, whose options are quicker to declare; or all of it."""
    if chosen := [command for command in app.registered_commands if command.name in names]:
        app = copy(app)
        app.registered_commands = chosen
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Errors that the user can correct print one line to stderr and exit with code 2.

    Args:
        argv (*optional*, defaults to those of this process): Words of the command line after `hf-localattn`.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    command = typer.main.get_command(_part_of(app, words[:1]))
    with exit_on_user_error():
        try:
            with command.make_context(NAME, words or ["--help"]) as context:
                command.invoke(context)
        except typer.Exit as ended:  # raised by --help, --version and `verify`
            return ended.exit_code
        except typer.TyperException as error:
            place = getattr(error, "ctx", None)
            remedy = "" if place is None else f" -- See `{place.command_path} --help`."
            is_unknown = hasattr(error, "possibilities")  # the option
            if is_unknown and place is not None and place.info_name == negation.__name__:
                remedy = " -- Put `--` before a text that begins with a hyphen."
            message = error.format_message().replace("Value error, ", "")  # pydantic's, of options with choices
            raise ValueError(message + remedy) from error
    return 0
