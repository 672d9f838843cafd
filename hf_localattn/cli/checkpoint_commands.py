"""Commands that create, describe, upload and verify checkpoint folders."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit, Option

from hf_localattn.cli.network import look_for_hub
from hf_localattn.cli.train_command import require_parser
from hf_localattn.errors import printable
from hf_localattn.names import family_names, find_family, read_config, resolve_backbone
from hf_localattn.parsing import parse_assignments

# Commands import their functions when they run, because importing torch and transformers would slow down `--help`.

License = Annotated[str | None, Option(help="License of the model for the card, such as apache-2.0.")]
Language = Annotated[str | None, Option(help="Language of the model for the card, such as en.")]


def init(
    family: Annotated[str, Argument(metavar="FAMILY", help=f"Family of the new layers: {', '.join(family_names())}.")],
    backbone: Annotated[
        str,
        Argument(
            help="Hub id or folder of a pretrained encoder, or of an encoder-decoder for generation; 'tiny' or"
            " 'tiny-bart' for a small random one.",
            metavar="BACKBONE",
        ),
    ],
    output_dir: Annotated[str, Argument(metavar="OUT", help="Output folder, which must be new or empty.")],
    config: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help="A field of the family's configuration, such as use_conv=false, or a setting of its tokenizer, such"
            " as parser=de_core_news_sm. Repeat the option for more.",
        ),
    ] = None,
    revision: Annotated[str | None, Option(help="Branch, tag or commit of the backbone on the Hub.")] = None,
    seed: Annotated[int, Option(help="Random seed for the new weights.")] = 0,
    task: Annotated[
        str | None,
        Option(
            help="Task whose head the model has, such as fill-mask, whose head takes the backbone's pretrained"
            " weights; by default the model has no head."
        ),
    ] = None,
    trained: Annotated[
        str | None,
        Option(
            "--from",
            metavar="CHECKPOINT",
            help="Checkpoint of the family with trained layers on the same backbone. The model takes its fields and"
            " weights (a warm start).",
        ),
    ] = None,
) -> None:
    """Write a complete checkpoint folder: model, tokenizer and code.

    Any transformers script can fine-tune it with `--model_name_or_path FOLDER --trust_remote_code`.
    """
    family = find_family(family)
    require_parser(family, config or ())
    resolve_backbone(backbone)
    look_for_hub(backbone, trained)
    from hf_localattn.hub import init_checkpoint

    fields = parse_assignments(config or ())
    folder = init_checkpoint(
        family, backbone, output_dir, revision=revision, seed=seed, task=task, trained=trained, **fields
    )
    print(
        f"Wrote {folder}. Fine-tune it with: --model_name_or_path {folder} (scripts that do not import hf_localattn"
        " also need --trust_remote_code)"
    )


def card(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="Folder of a trained model.")],
    repo: Annotated[
        str | None, Option(metavar="OWNER/NAME", help="Hub id of the model, for the code that loads it.")
    ] = None,
    revision: Annotated[
        str | None, Option(metavar="COMMIT", help="Commit, for the code that loads the model.")
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace a card that was not written by this command.")
    ] = False,
    license: License = None,
    language: Language = None,
) -> None:
    """Write the model card (README.md) of a checkpoint folder from its configuration and training record.

    Text that was added below the last line, and added metadata, are kept.
    """
    read_config(checkpoint)
    from hf_localattn.hub import write_card

    path = write_card(
        checkpoint, repo_id=repo, revision=revision, overwrite=overwrite, license=license, language=language
    )
    print(f"Wrote {path}.")


def push(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="Folder of a model.")],
    repo: Annotated[
        str, Argument(metavar="OWNER/NAME", help="Hub id of the repository, created if it does not exist.")
    ],
    private: Annotated[bool | None, Option("--private", help="Create a private repository.")] = None,
    branch: Annotated[str | None, Option(help="Branch to upload to; by default main.")] = None,
    message: Annotated[str | None, Option(help="Commit message.")] = None,
    space: Annotated[
        str | None,
        Option(metavar="OWNER/NAME", help="Also write a Space with the page of `hf-localattn demo` for this commit."),
    ] = None,
    license: License = None,
    language: Language = None,
) -> None:
    """Upload weights, code and tokenizer of a checkpoint folder to the Hub, then a model card that pins this commit.

    Repeat the command to complete an interrupted upload.
    """
    read_config(checkpoint)
    from hf_localattn.hub import push_checkpoint
    from hf_localattn.serving.space import push_space, space_files

    if space is not None:
        space_files(checkpoint, repo, "main")  # errors are raised before the upload
    commit = push_checkpoint(
        checkpoint, repo, private=private, branch=branch, message=message, license=license, language=language
    )
    print(f"Uploaded to {repo} as commit {commit.oid}: load it with revision={commit.oid!r}.")
    if space is not None:
        name = commit.repo_url.repo_id
        space = push_space(checkpoint, name, commit.oid, space, private=private, license=license)
        print(f"Wrote the Space {space}. If {name} is private, add a secret HF_TOKEN to the Space's settings.")


def verify(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="Folder of a model, or OWNER/NAME or OWNER/NAME@REVISION on the Hub.")
    ],
    with_equal: Annotated[
        bool, Option("--list", help="List equal files, with their sizes, and all files that a load does not read.")
    ] = False,
    with_diff: Annotated[bool, Option("--diff", help="Show the lines in which code files differ.")] = False,
) -> None:
    """Judge a checkpoint of a family as loading does, and compare its code with this package's, without running it.

    Printed are files and entries that loading refuses; code that differs, is missing or is extra; what is allowed and
    should be known, such as templates and settings that change what the model reads; then what was not judged, and
    files that a load does not read. The exit code is 0 if nothing is refused and all code is equal, otherwise 1.
    """
    look_for_hub(checkpoint.partition("@")[0])
    from hf_localattn.hub.verify import verify_checkpoint

    verification = verify_checkpoint(checkpoint)
    print(printable(verification.report(with_equal=with_equal, with_diff=with_diff)))
    raise Exit(0 if verification.is_equal else 1)
