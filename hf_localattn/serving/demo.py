"""`hf-localattn demo`: a page on this machine that asks a checkpoint."""

from __future__ import annotations

import html
import socket
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.bundled import negation_model
from hf_localattn.families import family_of, task_of_class
from hf_localattn.hub import TrainingRecord
from hf_localattn.inspection.attribution import is_explained_by_influence, token_influence
from hf_localattn.inspection.command import labels, load
from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import LOCAL, SELF, attention_map, local_map_of, usual_kind
from hf_localattn.limits import MOST_CHARACTERS
from hf_localattn.models.negation_labels import CUE_LABELS, INSIDE
from hf_localattn.pipelines import language_warning
from hf_localattn.resources import NEGATION
from hf_localattn.serving.page import WIDGETS, add_widget, launch, load_pipe

MOST_TOKENS = 128  # of a map; a larger one would be slow to transfer and to show
EXCERPT = 200  # number of characters around an answer for which attention is shown
MAPS = {"local attention": LOCAL, "self-attention": SELF}
INFLUENCE = "influence of tokens"


def run(
    checkpoint: str | None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    share: bool = False,
    trust_remote_code: bool = False,
    settings: Mapping[str, Any] = MappingProxyType({}),
    most_characters: int | None = MOST_CHARACTERS,
) -> None:
    """Serve the page of a checkpoint, or of the package's own model of negation, until the process is interrupted.

    The help of the command has the arguments.

    Raises:
        ValueError: The checkpoint is invalid, or has no head with a widget.
        OSError: The checkpoint cannot be loaded, or the address cannot be used.
    """
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:  # gradio would wait forever for some servers that cannot listen
        socket.create_server((host, port or 0), family=address_family).close()
    except OSError as error:
        raise OSError(f"Cannot listen on {host}:{port or '*'}: {error.strerror}. Set --port and --host.") from error
    if checkpoint is None:
        if settings:
            raise ValueError(
                f"--config {next(iter(settings))} is for the tokenizer of a checkpoint: give its folder, too."
            )
        checkpoint = str(NEGATION)
        model, tokenizer = negation_model()
        model.set_attn_implementation("eager")
    else:
        model, tokenizer = load(checkpoint, settings=settings, trust_remote_code=trust_remote_code)
    task = page_task(checkpoint, model.config)
    title = f"{labels([checkpoint])[0]}: {task.replace('-', ' ')}"
    record = TrainingRecord.load(checkpoint)
    has_pairs = None if record is None else record.has_pairs
    pipe = load_pipe(task, model, tokenizer=tokenizer)
    page = build_page(task, pipe, title, has_pairs, most_characters=most_characters)
    server = {"server_name": host, "server_port": port, "share": share}
    _, url, public = launch(page, **server, prevent_thread_lock=True, quiet=True)
    print(f"Open {public or url} in a browser. Ctrl+C ends the server.", flush=True)
    page.block_thread()


def build_page(
    task: str, pipe: Any, title: str, has_pairs: bool | None = None, *, most_characters: int | None = None
) -> Any:
    """Build a page that asks a model, which has eager attention, and shows its attention, a `gradio.Blocks`."""
    import gradio as gr

    kinds = attention_kinds(pipe.model)

    def find_negation(text: str, **settings: Any) -> Any:
        if warning := language_warning(pipe.model, text):
            gr.Warning(warning, duration=None)
        return pipe(text, **settings)

    def show(shown: Any, kind: str) -> str:
        if shown is None:
            return ""
        try:
            return attention_html(pipe.model, pipe.tokenizer, attended_texts(*shown), kind)
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"

    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.Markdown(f"# {html.escape(title)}")
        asked = find_negation if task == "negation" else pipe
        shown = add_widget(task, asked, example_text(task, pipe.model.config), has_pairs, most_characters)
        with gr.Accordion("Attention"):
            kind = gr.Radio(kinds, value=kinds[0], show_label=False, container=False)
            frame = gr.HTML(elem_id="attention")
        gr.on([shown.change, kind.change], show, [shown, kind], frame, api_name=False, show_progress="minimal")
    return page


def page_task(checkpoint: str, config: PreTrainedConfig) -> str:
    """Return the task of the page for a model, a key of `WIDGETS`; `ValueError` if there is no page for it."""
    architecture = next(iter(config.architectures or ()), "an unknown class")
    task = task_of_class(architecture)
    if task not in WIDGETS:
        raise ValueError(
            f"{checkpoint!r} is a checkpoint of {architecture}, whose head has no page. Choose a checkpoint for"
            f" {', '.join(WIDGETS)}."
        )
    names = set(config.id2label.values())
    if task == "token-classification" and INSIDE in names and not names.isdisjoint(CUE_LABELS):
        return "negation"
    return task


def example_text(task: str, config: PreTrainedConfig) -> str | None:
    """Return the example text of the model's family for pages with a single text; None for others."""
    family = family_of(config)
    if family is None or not task.endswith("-classification"):
        return None
    return family.example


def attention_kinds(model: PreTrainedModel) -> list[str]:
    """Return the names of what the page can show of a model, the usual one first."""
    if is_explained_by_influence(model):
        return [INFLUENCE, "self-attention"]
    if local_map_of(model.config) is None:
        return ["self-attention"]
    return sorted(MAPS, key=lambda name: MAPS[name] != usual_kind(model.config))


def attended_texts(texts: Sequence[str], finding: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text, or pair of texts, whose attention explains an answer, a cue, the best choice, or nothing."""
    if "choice" in finding:
        return texts[0], finding["choice"]
    if "sentence" in finding:  # with a marker before the word of each cue
        sentence = finding["sentence"]
        text = texts[0][sentence["start"] : sentence["end"]]
        for part in reversed(finding["cue"]):
            word = text.rfind(" ", 0, part["start"] - sentence["start"]) + 1
            text = f"{text[:word]}[CUE] {text[word:]}"
        return (text,)
    if "answer" in finding:
        return texts[0], texts[1][max(finding["start"] - EXCERPT, 0) : finding["end"] + EXCERPT]
    return tuple(filter(None, texts))


def attention_html(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], kind: str) -> str:
    """Return HTML with one of `attention_kinds` for a text or a pair of texts.

    Raises:
        ValueError: The text is too long, or has no query for the attention.
    """
    if kind == INFLUENCE:
        text: Any = texts[0] if len(texts) == 1 else tuple(texts)
        (weights,) = token_influence(model, tokenizer, [text])
        count = len(weights.tokens)
        page = render_page("", texts=[(weights.title, weights)])
    else:
        attention = attention_map(model, tokenizer, *texts, kind=MAPS[kind])
        count = len(attention.tokens)
        page = render_page(kind, maps=[(attention.title, attention)])
    if count > MOST_TOKENS:
        raise ValueError(
            f"The text has {count} tokens; the page shows at most {MOST_TOKENS}. For longer texts use `hf-localattn"
            " inspect`."
        )
    return (  # a frame keeps the styles of both pages apart
        f'<iframe title="attention" sandbox srcdoc="{html.escape(page)}"'
        ' style="width:100%;height:30em;border:1px solid #ccc;resize:vertical;background:#fff"></iframe>'
    )
