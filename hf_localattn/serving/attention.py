"""Attention of a model as a part of a page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import LOCAL, SELF, attention_map, local_map_of, usual_kind

MOST_TOKENS = 128  # of a map; a larger one would be slow to transfer and to show
EXCERPT = 200  # number of characters around an answer for which attention is shown
MAPS = {"local attention": LOCAL, "self-attention": SELF}


def attention_kinds(config: PreTrainedConfig) -> list[str]:
    """Return the names of the kinds of attention that a model has, the usual one first."""
    names = [name for name, kind in MAPS.items() if kind == SELF or local_map_of(config) is not None]
    return sorted(names, key=lambda name: MAPS[name] != usual_kind(config))


def attended_texts(texts: Sequence[str], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text, or pair of texts, whose attention explains an answer, a cue, the best choice, or nothing."""
    if "choice" in found:
        return texts[0], found["choice"]
    if "sentence" in found:  # with a marker before the word of each cue
        text, at, marked = texts[0], found["sentence"]["start"], ""
        for part in found["cue"]:
            word = max(text.rfind(" ", 0, part["start"]) + 1, at)
            marked += text[at:word] + "[CUE] "
            at = word
        return (marked + text[at : found["sentence"]["end"]],)
    if "answer" in found:
        left, passage = max(found["start"] - EXCERPT, 0), texts[1]
        if left:  # begin with a whole word
            left = passage.find(" ", left, found["start"]) + 1 or left
        return texts[0], passage[left : found["end"] + EXCERPT]
    return tuple(filter(None, texts))


def attention_html(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], kind: str) -> str:
    """Return HTML with a map of a kind of attention (`attention_kinds`) on a text or a pair of texts.

    Raises:
        ValueError: The text is too long, or has no query for the attention.
    """
    found = attention_map(model, tokenizer, *texts, kind=MAPS[kind])
    if len(found.tokens) > MOST_TOKENS:
        raise ValueError(
            f"The text has {len(found.tokens)} tokens; the page shows attention for at most {MOST_TOKENS}. For longer"
            " texts use `hf-localattn inspect`."
        )
    page = render_page(kind, maps=[(found.title, found)])
    return (  # a frame keeps the styles of both pages apart
        f'<iframe title="attention" sandbox srcdoc="{html.escape(page)}"'
        ' style="width:100%;height:30em;border:1px solid #ccc;resize:vertical;background:#fff"></iframe>'
    )
