"""Arguments of `hf-localattn export`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from typer import Argument, Option

from hf_localattn.cli.options import Settings
from hf_localattn.extras import require
from hf_localattn.names import find_files


def export(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="Folder of a trained model.")],
    output_dir: Annotated[str, Argument(metavar="OUT", help="Output folder, which must be new or empty.")],
    quantize: Annotated[
        Literal["int8", "int8-weights"] | None,
        Option(help="A graph of a quarter of the size: the faster one, or the one with more exact outputs."),
    ] = None,
    check_file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Texts on which the decisions of the quantized graph are compared, one per line; a tab between the"
            " question and its context, or between the texts of a pair. By default sample texts.",
        ),
    ] = None,
    config: Settings = None,
) -> None:
    """Write a checkpoint as an ONNX graph for any batch size and length, with its tokenizer and a program.

    The graph is compared with the model before it is written. `python OUT/infer.py TEXT...` runs it with onnxruntime.
    """
    require("onnx", "`hf-localattn export`")
    check_file = check_file and find_files(check_file)
    from hf_localattn.exported import SETTINGS
    from hf_localattn.serving.export import ARGUMENTS, export_checkpoint

    folder = export_checkpoint(checkpoint, output_dir, quantize=quantize, check_file=check_file, settings=config or ())
    task = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["task"]
    print(f"Wrote {folder}. Run it with: python {folder}/infer.py {ARGUMENTS.get(task, 'TEXT')}")
