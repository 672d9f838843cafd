"""`hf-localattn inspect`: the command's arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from hf_localattn.cli.grammar import ASSIGNMENT, several

Kind = Literal["auto", "self", "local", "gates", "tokens", "answers"]


def inspect(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="Hub id or folder of a model: of a family, or any encoder.")
    ],
    texts: Annotated[
        list[str] | None, Argument(metavar="TEXT", help="Texts to read; for OA with [CUE] before cue words.")
    ] = None,
    pair: Annotated[
        str | None, Option(metavar="TEXT", help="Second text of a pair, such as the passage of a question.")
    ] = None,
    compare: Annotated[
        str | None, Option(metavar="OTHER", help="Another checkpoint, shown next to the first.")
    ] = None,
    file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Texts in place of TEXT: one a line (.txt), or a column of a table (.csv, .tsv, .json, .jsonl); with"
            " --compare, the rows of a task that both models answer, in a format that its script reads.",
        ),
    ] = None,
    max_samples: Annotated[int | None, Option(metavar="N", help="Use only the first N rows of --file.")] = None,
    text_column_names: Annotated[
        str | None, Option(metavar="NAMES", help="Columns of --file that hold texts: one, or two with a comma.")
    ] = None,
    label_column_name: Annotated[
        str | None, Option(metavar="NAME", help="Column of --file that holds the labels.")
    ] = None,
    kind: Annotated[
        Kind,
        Option(
            help="auto: the family's own mechanism; self: map of the encoder's self-attention; local: map of the local"
            " attention; gates: SLA's mean gate of each layer; tokens: SAM's weights of tokens; answers: rows of"
            " --file that --compare answers differently."
        ),
    ] = "auto",
    layers: Annotated[
        str | None, Option(metavar="N,N,...", help="Layers whose mean a map is, from 0; by default all.")
    ] = None,
    special_tokens: Annotated[bool, Option("--special-tokens", help="Show [CLS], [SEP] and their kin too.")] = False,
    trust_remote_code: Annotated[
        bool, Option("--trust-remote-code", help="Run code that comes with a checkpoint.")
    ] = False,
    config: Annotated[
        list[str] | None,
        several("--config", ASSIGNMENT, "Settings of the tokenizer, such as parser=FOLDER, where it has them."),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write, in place of what is there: .png, .svg, .pdf, .html or .json; --kind answers is"
            " printed without it.",
        ),
    ] = None,
) -> None:
    """Show attention maps, gates or weights of tokens of a checkpoint, alone or next to another one.

    Or the rows of a data set that two checkpoints answer differently.
    """
    from hf_localattn.inspection.command import Inspection, run

    run(
        Inspection(
            checkpoint,
            tuple(texts or ()),
            pair=pair,
            compare=compare,
            file=file,
            max_samples=max_samples,
            text_column_names=text_column_names,
            label_column_name=label_column_name,
            kind=kind,
            layers=layers,
            special_tokens=special_tokens,
            trust_remote_code=trust_remote_code,
            settings=tuple(config or ()),
            output=output,
        )
    )
