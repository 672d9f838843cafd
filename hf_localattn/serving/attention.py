"""Attention of a model as a part of a page."""

from __future__ import annotations

import html

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import LOCAL, SELF, attention_map, local_map_of, usual_kind
from hf_localattn.inspection.weights import gate_values, gates_of, token_weights, weighs_tokens

MOST_TOKENS = 128
"""Largest number of tokens of a map. A larger map would be slow to transfer and to show."""

LABELS = {LOCAL: "local attention", SELF: "self-attention", "gates": "gates by layer", "tokens": "token weights"}


class AttentionView:
    """Attention of a model on a text, as HTML.

    Args:
        model: Model with eager attention.
        tokenizer: Fast tokenizer of the model.

    Attributes:
        kinds: Names of the kinds of attention that the model has, the usual one first.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase):
        self.model, self.tokenizer = model, tokenizer
        config = model.config
        has = {
            "tokens": weighs_tokens(config),
            LOCAL: local_map_of(config) is not None,
            SELF: True,
            "gates": gates_of(config) is not None,
        }
        kinds = [kind for kind, available in has.items() if available]
        if not has["tokens"]:
            kinds.sort(key=lambda kind: kind != usual_kind(config))
        self.kinds = [LABELS[kind] for kind in kinds]

    def __call__(self, texts: tuple[str, ...], kind: str) -> str:
        """Return HTML with the attention on a text or a pair of texts.

        Args:
            texts: One or two texts.
            kind: One of `kinds`.

        Raises:
            ValueError: The text is too long, or has no query for the attention.
        """
        loaded = (self.model, self.tokenizer)
        text = (texts[0], texts[1]) if len(texts) > 1 else texts[0]
        if kind == LABELS["tokens"]:
            return framed(render_page(kind, texts=[("", token_weights(*loaded, [text])[0])]), 12)
        if kind == LABELS["gates"]:
            return framed(render_page(kind, gates={"mean gate": gate_values(*loaded, [text])}), 12)
        wanted = LOCAL if kind == LABELS[LOCAL] else SELF
        found = attention_map(*loaded, *texts, kind=wanted)
        if len(found.tokens) > MOST_TOKENS:
            raise ValueError(
                f"The text has {len(found.tokens)} tokens; the page shows attention for at most {MOST_TOKENS}. For"
                " longer texts use `hf-localattn inspect`."
            )
        return framed(render_page(kind, maps=[(found.title, found)]), 30)


def framed(page: str, height: int) -> str:
    """Return an inline frame of this height (em) with an HTML page. A frame keeps the styles of both pages apart."""
    return (
        f'<iframe title="attention" sandbox srcdoc="{html.escape(page)}"'
        f' style="width:100%;height:{height}em;border:1px solid #ccc;resize:vertical;background:#fff"></iframe>'
    )
