"""Arguments of `hf-localattn inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from hf_localattn.cli.options import Settings
from hf_localattn.extras import require

Kind = Literal["auto", "self", "local", "gates", "tokens"]


def inspect(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="Hub id or folder of a model of a family, or of any encoder.")
    ],
    output: Annotated[
        Path,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            dir_okay=False,
            help="Output file, which is overwritten: .png, .svg, .pdf, .html or .json.",
        ),
    ],
    texts: Annotated[
        list[str] | None, Argument(metavar="TEXT", help="Input texts. For OA write [CUE] before each cue word.")
    ] = None,
    pair: Annotated[
        str | None, Option(metavar="TEXT", help="Second text of a pair, such as the passage of a question.")
    ] = None,
    compare: Annotated[
        str | None, Option(metavar="OTHER", help="Another checkpoint to compare with the first one.")
    ] = None,
    file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="File of texts, in place of TEXT: one per line (.txt), or a column of a table (.csv, .tsv, .json,"
            " .jsonl).",
        ),
    ] = None,
    max_samples: Annotated[int | None, Option(min=1, metavar="N", help="Use only the first N rows of --file.")] = None,
    text_column_names: Annotated[
        str | None, Option(metavar="NAMES", help="Text columns of --file: one, or two separated by a comma.")
    ] = None,
    kind: Annotated[
        Kind,
        Option(
            help="auto: the mechanism of the model's family; self: map of the encoder's self-attention; local: map of"
            " the local attention; gates: SLA's mean gate of each layer; tokens: SAM's token weights."
        ),
    ] = "auto",
    layers: Annotated[
        Any,
        Option(
            metavar="N,N,...",
            parser=lambda text: [int(number) for number in text.split(",")],
            help="Layers to average a map over, from 0; by default all.",
        ),
    ] = None,
    special_tokens: Annotated[
        bool, Option("--special-tokens", help="Show special tokens such as [CLS] and [SEP], too.")
    ] = False,
    trust_remote_code: Annotated[
        bool, Option("--trust-remote-code", help="Run the Python code of the checkpoints.")
    ] = False,
    config: Settings = None,
) -> None:
    """Show attention maps, gates or token weights of a checkpoint, alone or next to those of another one."""
    if output.suffix in (".png", ".svg", ".pdf"):
        require("plot", f"-o {output}")
    if file is not None:
        require("train", "--file")
    from hf_localattn.inspection.command import run

    run(
        checkpoint,
        output,
        texts or (),
        pair=pair,
        compare=compare,
        file=file,
        max_samples=max_samples,
        text_column_names=text_column_names,
        kind=kind,
        layers=layers,
        special_tokens=special_tokens,
        trust_remote_code=trust_remote_code,
        settings=config or (),
    )
