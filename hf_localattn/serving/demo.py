"""`hf-localattn demo`: a page on this machine that asks a checkpoint."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedConfig

from hf_localattn.errors import join_names
from hf_localattn.extras import import_extra
from hf_localattn.inspection.command import load
from hf_localattn.inspection.findings import labels
from hf_localattn.models.negation_finder import CUE_LABELS, INSIDE
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import family_of, task_of_class
from hf_localattn.serving.attention import AttentionView
from hf_localattn.serving.widgets import WIDGETS, create_widget


@dataclass(frozen=True)
class Demo:
    """Arguments of `hf-localattn demo`.

    Attributes:
        checkpoint: Hub id or folder of a model.
        host: Address to listen on.
        port: Port to listen on. Defaults to the first free one from 7860.
        share: If True, create a public address.
        trust_remote_code: If True, run the code of the checkpoint.
        settings: `setting=value` strings for the tokenizer.
    """

    checkpoint: str
    host: str = "127.0.0.1"
    port: int | None = None
    share: bool = False
    trust_remote_code: bool = False
    settings: tuple[str, ...] = ()


def run(arguments: Demo) -> None:
    """Serve the page until the process is interrupted.

    Raises:
        ValueError: The checkpoint has no head with a widget, or the port is invalid.
        OSError: The checkpoint cannot be loaded, or the port is in use.
        ImportError: gradio is not installed.
    """
    if arguments.port is not None and not 0 < arguments.port < 65536:
        raise ValueError(f"--port {arguments.port}: give a number from 1 to 65535.")
    resolve_backbone(arguments.checkpoint)  # a folder that is none is an error even without gradio
    import_extra("gradio", "demo", "`hf-localattn demo`")
    check_address(arguments.host, arguments.port)
    from hf_localattn.serving.page import launch_page

    page = create_page(
        arguments.checkpoint, settings=arguments.settings, trust_remote_code=arguments.trust_remote_code
    )
    _, url, public = launch_page(
        page,
        server_name=arguments.host,
        server_port=arguments.port,
        share=arguments.share,
        prevent_thread_lock=True,
        quiet=True,
    )
    print(f"Open {public or url} in a browser. Ctrl+C ends the server.", flush=True)
    page.block_thread()


def check_address(host: str, port: int | None) -> None:
    """Raise `OSError` if no server can listen on an address. gradio would wait forever for some of these servers."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port or 0), family=family).close()
    except OSError as error:
        place = host if port is None else f"{host}:{port}"
        raise OSError(
            f"Cannot listen on {place}: {error.strerror}. Choose a free port with --port and an address of this"
            " machine with --host."
        ) from error


def create_page(checkpoint: str, *, settings: Sequence[str] = (), trust_remote_code: bool = False) -> Any:
    """Load a checkpoint and build its page, a `gradio.Blocks`.

    Args:
        checkpoint: Hub id or folder.
        settings (*optional*): `setting=value` strings for the tokenizer.
        trust_remote_code (*optional*, defaults to False): If True, run the code of the checkpoint.

    Raises:
        ValueError: The checkpoint is invalid, or has no head with a widget.
        OSError: The checkpoint cannot be loaded.
    """
    from hf_localattn.serving.page import build_page

    model, tokenizer = load(checkpoint, settings=settings, trust_remote_code=trust_remote_code)
    task = widget_task(checkpoint, model.config, type(model).__name__)
    tokenizer("A text.")  # a missing parser is an error now, not on the page
    attention = AttentionView(model, tokenizer)
    return build_page(
        create_widget(task, model, tokenizer),
        f"{labels([checkpoint])[0]}: {task.replace('-', ' ')}",
        example=example_text(task, model.config),
        attention=attention,
        kinds=attention.kinds,
    )


def widget_task(checkpoint: str, config: PreTrainedConfig, architecture: str) -> str:
    """Return the task of the widget for a model, a key of `WIDGETS`.

    Args:
        checkpoint: Name of the checkpoint, for the error message.
        config: Configuration of the model.
        architecture: Name of the model's class.

    Raises:
        ValueError: There is no widget for the model.
    """
    task = task_of_class(architecture)
    if task not in WIDGETS:
        raise ValueError(
            f"{checkpoint!r} is a checkpoint of {architecture or 'an unknown class'}, whose head has no widget."
            f" Choose a checkpoint for {join_names(list(WIDGETS))}."
        )
    names = set(config.id2label.values())
    finds_cues = task == "token-classification" and INSIDE in names and not names.isdisjoint(CUE_LABELS)
    return "negation" if finds_cues else task


def example_text(task: str, config: PreTrainedConfig) -> str | None:
    """Return the example text of the model's family for widgets with a single text; None for other widgets."""
    family = family_of(config)
    uses_default = len([one for one in WIDGETS[task].inputs if not one.optional]) > 1
    uses_default |= task in ("negation", "fill-mask")
    return None if family is None or uses_default else family.example
