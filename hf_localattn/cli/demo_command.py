"""Arguments of `hf-localattn demo`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hf_localattn.cli.options import Settings
from hf_localattn.extras import require


def demo(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="Hub id or folder of a model with a head, of any family or of none.")
    ],
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, Option(min=1, max=65535, metavar="N", help="Port; by default the first free one from 7860.")
    ] = None,
    share: Annotated[bool, Option("--share", help="Also create a public address, on a server of gradio.")] = False,
    trust_remote_code: Annotated[
        bool, Option("--trust-remote-code", help="Run the Python code of the checkpoint.")
    ] = False,
    config: Settings = None,
) -> None:
    """Open a page on this machine that asks a checkpoint.

    It finds answers, negation, classes, labels of words, masked words, choices, or generates text. The page shows the
    attention of the model, too. It needs gradio (`pip install 'hf_localattn[demo]'`).
    """
    require("demo", "`hf-localattn demo`")
    from hf_localattn.serving.demo import run

    run(
        checkpoint,
        host=host,
        port=port,
        share=share,
        trust_remote_code=trust_remote_code,
        settings=config or (),
    )
