"""`hf-localattn demo`: a page on this machine that asks a checkpoint."""

from __future__ import annotations

import html
import socket
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, pipeline

from hf_localattn.inspection.command import labels, load
from hf_localattn.models.negation_finder import CUE_LABELS, INSIDE
from hf_localattn.registry import family_of, task_of_class
from hf_localattn.serving.attention import attended_texts, attention_html, attention_kinds
from hf_localattn.serving.page import TASKS, WITHOUT_PIPELINE, add_widget, launch


def run(
    checkpoint: str,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    share: bool = False,
    trust_remote_code: bool = False,
    settings: Sequence[str] = (),
) -> None:
    """Serve the page of a checkpoint until the process is interrupted.

    Args:
        checkpoint: Hub id or folder of a model.
        host (*optional*, defaults to "127.0.0.1"): Address to listen on.
        port (*optional*): Port to listen on. Defaults to the first free one from 7860.
        share (*optional*, defaults to False): If True, create a public address.
        trust_remote_code (*optional*, defaults to False): If True, run the code of the checkpoint.
        settings (*optional*): `setting=value` strings for the tokenizer.

    Raises:
        ValueError: The checkpoint is invalid, or has no head with a widget.
        OSError: The checkpoint cannot be loaded, or the address cannot be used.
        ImportError: gradio is not installed.
    """
    try:  # gradio would wait forever for some servers that cannot listen
        socket.create_server((host, port or 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise OSError(f"Cannot listen on {host}:{port or '*'}: {error.strerror}. Set --port and --host.") from error
    model, tokenizer = load(checkpoint, settings=settings, trust_remote_code=trust_remote_code)
    task = page_task(checkpoint, model.config, type(model).__name__)
    tokenizer("A text.")  # a missing parser is an error now, not on the page
    title = f"{labels([checkpoint])[0]}: {task.replace('-', ' ')}"
    page = build_page(task, pipe_of(task, model, tokenizer), title)
    server = {"server_name": host, "server_port": port, "share": share}
    _, url, public = launch(page, **server, prevent_thread_lock=True, quiet=True)
    print(f"Open {public or url} in a browser. Ctrl+C ends the server.", flush=True)
    page.block_thread()


def build_page(task: str, pipe: Any, title: str) -> Any:
    """Build a page that asks a model and shows its attention, a `gradio.Blocks`.

    Args:
        task: A key of `TASKS`.
        pipe: Result of `pipe_of` for a model with eager attention.
        title: Title of the page.
    """
    import gradio as gr

    kinds = attention_kinds(pipe.model.config)

    def show(shown: Any, kind: str) -> str:
        if shown is None:
            return ""
        try:
            return attention_html(pipe.model, pipe.tokenizer, attended_texts(*shown), kind)
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"

    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.Markdown(f"# {html.escape(title)}")
        shown = add_widget(task, pipe, example_text(task, pipe.model.config))
        with gr.Accordion("Attention", open=True):
            kind = gr.Radio(kinds, value=kinds[0], show_label=False, container=False)
            frame = gr.HTML(elem_id="attention")
        gr.on([shown.change, kind.change], show, [shown, kind], frame, api_name=False, show_progress="minimal")
    return page


def pipe_of(task: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Any:
    """Return what answers on the page: a pipeline, or an object with the model and the tokenizer."""
    if task in WITHOUT_PIPELINE:
        return SimpleNamespace(model=model, tokenizer=tokenizer)
    return pipeline(task, model=model, tokenizer=tokenizer)


def page_task(checkpoint: str, config: PreTrainedConfig, architecture: str) -> str:
    """Return the task of the page for a model, a key of `TASKS`.

    Args:
        checkpoint: Name of the checkpoint, for the error message.
        config: Configuration of the model.
        architecture: Name of the model's class.

    Raises:
        ValueError: There is no page for the model.
    """
    task = task_of_class(architecture)
    if task not in TASKS:
        raise ValueError(
            f"{checkpoint!r} is a checkpoint of {architecture or 'an unknown class'}, whose head has no page."
            f" Choose a checkpoint for {', '.join(TASKS)}."
        )
    names = set(config.id2label.values())
    finds_cues = task == "token-classification" and INSIDE in names and not names.isdisjoint(CUE_LABELS)
    return "negation" if finds_cues else task


def example_text(task: str, config: PreTrainedConfig) -> str | None:
    """Return the example text of the model's family for pages with a single text; None for others."""
    family = family_of(config)
    return family.example if family is not None and task.endswith("-classification") else None
