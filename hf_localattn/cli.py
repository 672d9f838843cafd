"""The `hf-localattn` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hf_localattn import __version__
from hf_localattn.errors import one_line_errors
from hf_localattn.families import FAMILIES, parse_config_fields
from hf_localattn.hub import init_checkpoint


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(prog="hf-localattn", description="Local attention for pretrained encoders.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

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
    return parser


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
    print(f"Wrote {folder}. Fine-tune it with: --model_name_or_path {folder} --trust_remote_code")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; bad input gives one line on standard error and exit code 2."""
    arguments = build_parser().parse_args(argv)
    with one_line_errors():
        arguments.run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
