"""Page with the widget of a head, built with gradio.

A Space gets a copy of this file (see `hf_localattn.serving.space`).
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from hf_localattn.serving.widgets import CUE, SCOPE, View, Widget

logger = logging.getLogger(__name__)

COLORS = {CUE: "orange", SCOPE: "blue", "answer": "orange"}

STYLE = """
.gradio-container {max-width: 1200px !important}
#message [role=alert] {padding: .6em .8em; border: 1px solid #c33; border-radius: .4em; background: #fdecea;
  color: #611; overflow-wrap: anywhere}
#highlight .textfield {display: block; white-space: pre-line; word-break: normal; overflow-wrap: anywhere}
#highlight .token-container {display: inline}
#highlight .label {white-space: nowrap}
#table {overflow-x: auto}
#table table {width: 100%; border-collapse: collapse}
#table :is(th, td) {padding: .3em .5em; border: 1px solid var(--border-color-primary); text-align: left}
#table td {overflow-wrap: break-word}
"""

Attention = Callable[[tuple[str, ...], str], str]
"""Function from a text, or a pair of texts, and the name of a kind of attention to HTML."""


def build_page(
    widget: Widget,
    title: str,
    *,
    example: str | None = None,
    attention: Attention | None = None,
    kinds: Sequence[str] = (),
) -> gr.Blocks:
    """Build the page.

    Args:
        widget: Widget of the model's head.
        title: Title of the page.
        example (*optional*): Initial text of the first field. Defaults to the widget's.
        attention (*optional*): Function that shows attention. By default the page shows none.
        kinds (*optional*): Kinds of attention to choose from. The first one is shown at first.
    """
    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.Markdown(f"# {html.escape(title)}")
        views = gr.State([])
        with gr.Row(equal_height=False):
            with gr.Column():
                fields = [
                    gr.Textbox(
                        label=one.label,
                        value=example if example and not number else one.example,
                        lines=one.lines,
                        max_lines=20,
                        elem_id=f"input-{number}",
                    )
                    for number, one in enumerate(widget.inputs)
                ]
                flag = gr.Checkbox(label=widget.flag, visible=bool(widget.flag), elem_id="flag")
                button = gr.Button("Run", variant="primary", elem_id="run")
                message = gr.HTML(visible=False, elem_id="message")
            with gr.Column():
                text = gr.Textbox(label="Result", visible=False, interactive=False, elem_id="text")
                scores = gr.Label(label="Classes", visible=False, elem_id="scores")
                selector = gr.Dropdown([], label="Highlight", type="index", visible=False, elem_id="selector")
                highlight = gr.HighlightedText(
                    label="Text",
                    color_map=COLORS,
                    show_legend=False,
                    show_inline_category=True,
                    visible=False,
                    elem_id="highlight",
                )
                table = gr.HTML(visible=False, elem_id="table")
        outputs = [views, message, text, scores, table, selector, highlight]
        answered = button.click(
            lambda *texts: _answer(widget, *texts), [*fields, flag], outputs, show_progress="minimal", api_name="ask"
        )
        chosen = selector.input(_highlight, [views, selector], highlight, api_name=False)
        if attention is not None:
            with gr.Accordion("Attention", open=True):
                kind = gr.Radio(list(kinds), value=kinds[0], show_label=False, container=False, elem_id="kind")
                shown = gr.HTML(elem_id="attention")
            show = {"fn": _attention_of(attention), "inputs": [views, selector, kind], "outputs": shown}
            for event in (answered.then, chosen.then, kind.change):
                event(**show, api_name=False, show_progress="minimal")
    return page


def launch_page(page: gr.Blocks, **settings: Any) -> Any:
    """Start the server of a page, with fonts of the browser's system, so that nothing else is loaded.

    Args:
        page: Page of `build_page`.
        **settings: Arguments of `gradio.Blocks.launch`.
    """
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    return page.launch(theme=gr.themes.Default(**fonts), css=STYLE, footer_links=[], **settings)


def _answer(widget: Widget, *inputs: Any) -> list[Any]:
    """Return the values of all outputs. An error becomes a message on the page."""
    *texts, flag = inputs
    try:
        result = widget.answer(*texts, flag=flag)
    except Exception as error:  # whatever it is, the page has to go on
        if not isinstance(error, ValueError):
            logger.exception("The model failed.")
        alert = f'<div role="alert">{html.escape(str(error) or type(error).__name__)}</div>'
        return [[], gr.update(value=alert, visible=True), *[gr.update(visible=False)] * 5]
    return [
        result.views,
        gr.update(value="", visible=False),
        gr.update(value=result.text, visible=bool(result.text)),
        gr.update(value=result.scores or None, visible=bool(result.scores)),
        gr.update(value=_table(widget.columns, result.rows), visible=bool(result.rows)),
        gr.update(
            choices=[view.name for view in result.views], value=result.views[0].name, visible=len(result.views) > 1
        ),
        _highlight(result.views, 0),
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(columns, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def _highlight(views: list[View], chosen: int | None) -> Any:
    pieces = views[chosen or 0].pieces
    return gr.update(value=pieces, visible=bool(pieces))


def _attention_of(attention: Attention) -> Callable[[list[View], int | None, str], str]:
    def show(views: list[View], chosen: int | None, kind: str) -> str:
        if not views:
            return ""
        try:
            return attention(views[chosen or 0].attended, kind)
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"

    return show
