"""The commands that make, describe, upload and compare checkpoint folders."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hf_localattn.cli.grammar import ASSIGNMENT, several

# The commands import what they run when they run: `--help` waits for neither torch nor transformers.

License = Annotated[str | None, Option(help="License of the model, such as apache-2.0, for the card.")]
Language = Annotated[str | None, Option(help="Language of its texts, such as en, for the card.")]


def init(
    family: Annotated[
        str, Argument(metavar="FAMILY", help="Family of the new layers: cool, sla-bert, oa-xlnet or sam-roberta.")
    ],
    backbone: Annotated[
        str,
        Argument(
            help="Hub id or folder of a pretrained encoder, or encoder-decoder for generation; or 'tiny' or"
            " 'tiny-bart' (small, random, shipped).",
            metavar="BACKBONE",
        ),
    ],
    output_dir: Annotated[str, Argument(metavar="OUT", help="Folder to write; it must be new or empty.")],
    config: Annotated[
        list[str] | None,
        several(
            "--config",
            ASSIGNMENT,
            "Fields of the family's configuration, such as use_conv=false, and settings of its tokenizer, such as"
            " parser=de_core_news_sm.",
        ),
    ] = None,
    revision: Annotated[str | None, Option(help="Branch, tag or commit of the backbone on the Hub.")] = None,
    seed: Annotated[int, Option(help="Seed of the new weights, which are random.")] = 0,
) -> None:
    """Write a complete checkpoint folder: model, tokenizer and code.

    Any transformers script can fine-tune it with `--model_name_or_path FOLDER --trust_remote_code`.
    """
    from hf_localattn.assignments import parse_config_fields
    from hf_localattn.hub import init_checkpoint

    fields = parse_config_fields(family, config or ())
    folder = init_checkpoint(family, backbone, output_dir, revision=revision, seed=seed, **fields)
    print(
        f"Wrote {folder}. Fine-tune it with: --model_name_or_path {folder} (scripts that do not import hf_localattn"
        " also need --trust_remote_code)"
    )


def card(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="Folder of a trained model.")],
    repo: Annotated[
        str | None, Option(metavar="OWNER/NAME", help="Its name on the Hub, to tell how to load it.")
    ] = None,
    revision: Annotated[str | None, Option(metavar="COMMIT", help="Commit that is to be loaded.")] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace a card that this command has not written.")
    ] = False,
    license: License = None,
    language: Language = None,
) -> None:
    """Write the README.md of a checkpoint folder from its configuration and the record of its training.

    What people have added below its last line, and to its metadata, stays.
    """
    from hf_localattn.hub import write_card

    path = write_card(
        checkpoint, repo_id=repo, revision=revision, overwrite=overwrite, license=license, language=language
    )
    print(f"Wrote {path}.")


def push(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="Folder of a model.")],
    repo: Annotated[str, Argument(metavar="OWNER/NAME", help="Its name on the Hub; made where there is none.")],
    private: Annotated[bool | None, Option("--private", help="Make a new repository private.")] = None,
    branch: Annotated[str | None, Option(help="Branch to upload to, by default main.")] = None,
    message: Annotated[str | None, Option(help="Message of the commit.")] = None,
    license: License = None,
    language: Language = None,
) -> None:
    """Upload weights, code and tokenizer of a checkpoint folder to the Hub, then a model card that pins this commit.

    Given again it completes what is missing.
    """
    from hf_localattn.hub import push_checkpoint

    commit = push_checkpoint(
        checkpoint, repo, private=private, branch=branch, message=message, license=license, language=language
    )
    print(f"{repo} has it as commit {commit.oid}: load it with revision={commit.oid!r}.")


def verify(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="Folder of a model, or OWNER/NAME or OWNER/NAME@REVISION on the Hub.")
    ],
) -> int:
    """Compare each code file of a checkpoint byte for byte with the package's, without running any.

    The differences are printed. The exit code is 0 if all are equal, and 1 if one differs, is missing or is extra.
    """
    from hf_localattn.hub import verify_checkpoint

    verification = verify_checkpoint(checkpoint)
    print(verification.report())
    return 0 if verification.is_equal else 1
