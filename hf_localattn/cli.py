"""The `hf-localattn` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from hf_localattn import __version__
from hf_localattn.errors import one_line_errors
from hf_localattn.families import FAMILIES, parse_config_fields
from hf_localattn.hub import init_checkpoint, push_checkpoint, verify_checkpoint, write_card
from hf_localattn.inspection import command as inspection
from hf_localattn.reproduction import command as reproduction


class IntermixedParser(argparse.ArgumentParser):
    """One that takes `inspect MODEL --compare OTHER TEXT`: argparse by itself gives up on TEXT before the option."""

    is_intermixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.is_intermixing:  # which calls this again, for the options and for the rest
            return super().parse_known_args(args, namespace)
        self.is_intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.is_intermixing = False


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(prog="hf-localattn", description="Local attention for pretrained encoders.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=IntermixedParser)

    init = commands.add_parser(
        "init",
        help="put new local layers on a pretrained backbone and save the result as a checkpoint folder",
        description="Write a complete checkpoint folder (model, tokenizer, code) that any transformers script can "
        "fine-tune with `--model_name_or_path FOLDER --trust_remote_code`.",
    )
    init.add_argument("family", help=f"one of: {', '.join(FAMILIES)}")
    init.add_argument(
        "backbone",
        help="Hub id or folder of a pretrained encoder, or encoder-decoder for generation; or 'tiny' or 'tiny-bart' "
        "(small, random, shipped)",
    )
    init.add_argument("output_dir", help="folder to write; it must not exist yet, or be empty")
    init.add_argument(
        "--set",
        dest="fields",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a field of the family's configuration, such as use_conv=false, or a setting of its tokenizer, such as "
        "parser=de_core_news_sm; may be given several times",
    )
    init.add_argument("--revision", help="branch, tag or commit of the backbone on the Hub")
    init.add_argument("--seed", type=int, default=0, help="of the new weights, which are random")
    init.set_defaults(run=run_init)

    card = commands.add_parser(
        "card",
        help="write or renew the model card of a checkpoint folder",
        description="Write the README.md of a checkpoint folder from its configuration and the record of the run that "
        "trained it. What people have added below its last line, and to its metadata, stays.",
    )
    card.add_argument("checkpoint", help="folder of a trained model")
    card.add_argument("--repo", metavar="OWNER/NAME", help="where it is on the Hub, to tell how to load it")
    card.add_argument("--revision", metavar="COMMIT", help="the commit that is to be loaded")
    card.add_argument("--overwrite", action="store_true", help="replace a card that was not written by this command")
    _add_metadata(card)
    card.set_defaults(run=run_card)

    push = commands.add_parser(
        "push",
        help="upload a checkpoint folder to the Hub, with a card that pins its commit",
        description="Upload weights, code and tokenizer of a checkpoint folder to the Hub, and then a model card that "
        "says how to load that very commit. Given again it completes what is missing.",
    )
    push.add_argument("checkpoint", help="folder of a model")
    push.add_argument("repo", metavar="OWNER/NAME", help="its name on the Hub; it is made where there is none")
    push.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    push.add_argument("--branch", help="to upload to, by default main")
    push.add_argument("--message", help="of the commit")
    _add_metadata(push)
    push.set_defaults(run=run_push)

    verify = commands.add_parser(
        "verify",
        help="compare the code files of a checkpoint with those of this package",
        description="Compare each code file of a checkpoint byte for byte with the package's, without running any, and"
        " print the differences. The exit code is 0 if all are equal, and 1 if one differs, is missing or is extra.",
    )
    verify.add_argument("checkpoint", help="folder of a model, or OWNER/NAME or OWNER/NAME@REVISION on the Hub")
    verify.set_defaults(run=run_verify)

    inspect = commands.add_parser(
        "inspect",
        help="show what a checkpoint looked at, or where two answer differently",
        description="Maps of attention, gates and weights of tokens of a checkpoint, alone or beside another one; and"
        " the rows of a data set that two checkpoints answer differently.",
    )
    inspection.add_arguments(inspect)
    inspect.set_defaults(run=inspection.run)

    reproduce = commands.add_parser(
        "reproduce",
        help="run a table or figure of the papers",
        description="Train what a table of the papers compares, and set what is measured beside what was published."
        " Given again it goes on where it was; the same runs serve all tables.",
    )
    reproduction.add_arguments(reproduce)
    reproduce.set_defaults(run=reproduction.run)
    return parser


def _add_metadata(command: argparse.ArgumentParser) -> None:
    command.add_argument("--license", help="of the model, such as apache-2.0, for the card")
    command.add_argument("--language", help="of its texts, such as en, for the card")


def run_card(arguments: argparse.Namespace) -> None:
    """`hf-localattn card`."""
    path = write_card(
        arguments.checkpoint,
        repo_id=arguments.repo,
        revision=arguments.revision,
        overwrite=arguments.overwrite,
        license=arguments.license,
        language=arguments.language,
    )
    print(f"Wrote {path}.")


def run_push(arguments: argparse.Namespace) -> None:
    """`hf-localattn push`."""
    commit = push_checkpoint(
        arguments.checkpoint,
        arguments.repo,
        private=arguments.private,
        branch=arguments.branch,
        message=arguments.message,
        license=arguments.license,
        language=arguments.language,
    )
    print(f"{arguments.repo} has it as commit {commit.oid}: load it with revision={commit.oid!r}.")


def run_verify(arguments: argparse.Namespace) -> int:
    """`hf-localattn verify`."""
    verification = verify_checkpoint(arguments.checkpoint)
    print(verification.report())
    return 0 if verification.is_equal else 1


def run_init(arguments: argparse.Namespace) -> None:
    """`hf-localattn init`."""
    config_fields = parse_config_fields(arguments.family, arguments.fields)
    folder = init_checkpoint(
        arguments.family,
        arguments.backbone,
        arguments.output_dir,
        revision=arguments.revision,
        seed=arguments.seed,
        **config_fields,
    )
    print(
        f"Wrote {folder}. Fine-tune it with: --model_name_or_path {folder} (scripts that do not import hf_localattn"
        " also need --trust_remote_code)"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; bad input gives one line on standard error and exit code 2."""
    arguments = build_parser().parse_args(argv)
    with one_line_errors():
        return arguments.run(arguments) or 0


if __name__ == "__main__":
    sys.exit(main())
