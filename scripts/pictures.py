"""Draw the pictures of the README and the family pages from trained models.

FOLDER has the checkpoints `cool` (`make demo`), `sla-bert` and `sam-roberta` (one epoch of TREC on all-MiniLM-L6-v2,
and three with the encoder frozen), and `oa-xlnet` (docs/negation.md). The pictures of missing ones are not renewed.

Usage: python scripts/pictures.py FOLDER [--parser NAME]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from transformers import pipeline

import hf_localattn  # noqa: F401  (registers the pipeline)
from hf_localattn.inspection import (
    attention_map,
    draw_gates,
    draw_maps,
    draw_token_weights,
    gate_values,
    picture,
    token_weights,
)
from hf_localattn.inspection.command import load

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"

PAIR = ("Who keeps two goats?", "The smith Greta keeps two goats.")
SENTENCES = [
    "The book that she read on the train surprised everyone.",
    "The box contained the ball from the tree.",
    "John asked who Mary said had left.",
    "What did the teacher believe the claim that he wrote?",
    "They seemed to have been waiting for hours.",
    "The more you read, the less you want to watch films.",
]
QUESTIONS = [
    "How many goats does the smith keep?",
    "Who invented the steam engine?",
    "What is the capital of Norway?",
    "What does the abbreviation NASA stand for?",
]
NEGATIONS = [
    "He neither spoke nor moved when she came in.",
    "It is impossible that the door was open, and I have no key.",
    "She did not see him, but she heard the dog.",
]

CHARACTER, LINE, MARGIN = 7.8, 30, 12
"""Width of a character, height of a line and margin of a drawing of scopes, in pixels."""

STYLE = """\
text { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; fill: #24292f; }
.page { fill: #ffffff; } .scope { fill: #ffe2cc; } .cue { fill: #bc4c00; } .on { fill: #ffffff; font-weight: 700; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .page { fill: #0d1117; } .scope { fill: #5a3212; }
  .cue { fill: #f0883e; } .on { fill: #0d1117; }
}"""


def outlook(folder: Path, _: str) -> tuple[str, bytes]:
    """Draw the outlook attention between a question and a passage."""
    model, tokenizer = load(str(folder))
    return "outlook.png", picture(draw_maps([attention_map(model, tokenizer, PAIR, kind="local")]), "png")


def gates(folder: Path, parser: str) -> tuple[str, bytes]:
    """Draw the mean gate of each layer."""
    model, tokenizer = load(str(folder), settings=[f"parser={parser}"])
    return "gates.png", picture(draw_gates({"SLA": gate_values(model, tokenizer, SENTENCES)}), "png")


def weights(folder: Path, _: str) -> tuple[str, bytes]:
    """Draw the weights of the tokens of questions, with the predicted class of each."""
    model, tokenizer = load(str(folder))
    classes = pipeline("text-classification", model=model, tokenizer=tokenizer)(QUESTIONS)
    figure = draw_token_weights(
        token_weights(model, tokenizer, QUESTIONS), [one["label"] for one in classes], width=3.7
    )
    return "token_weights.png", picture(figure, "png")


def scopes(folder: Path, _: str) -> tuple[str, bytes]:
    """Draw each cue that the model finds with its scope."""
    finder = pipeline("negation", model=str(folder))
    rows = [(text, one) for text, found in zip(NEGATIONS, finder(NEGATIONS), strict=True) for one in found]
    return "scopes.svg", draw_scopes(rows).encode()


def draw_scopes(rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return an SVG with a line for each text and cue. `textLength` fits the text to the marks in any font."""
    width = max(len(text) for text, _ in rows) * CHARACTER + 2 * MARGIN
    height = len(rows) * LINE + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{width:g}" height="{height:g}" rx="8"/>',
    ]
    for number, (text, found) in enumerate(rows):
        y = MARGIN + number * LINE
        for kind in ("scope", "cue"):
            parts += [
                f'<rect class="{kind}" {_place(one["start"], one["end"], y)} height="21" rx="3"/>'
                for one in found[kind]
            ]
        cues = {place for one in found["cue"] for place in range(one["start"], one["end"])}
        borders = [0, *(place for place in range(1, len(text)) if (place in cues) != (place - 1 in cues)), len(text)]
        for start, end in pairwise(borders):
            style = ' class="on"' if start in cues else ""
            place = f'x="{MARGIN + start * CHARACTER:g}" y="{y + 15}" textLength="{(end - start) * CHARACTER:g}"'
            words = escape(text[start:end])
            parts.append(f'<text{style} {place} lengthAdjust="spacingAndGlyphs" xml:space="preserve">{words}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _place(start: int, end: int, y: float) -> str:
    return f'x="{MARGIN + start * CHARACTER:g}" y="{y:g}" width="{(end - start) * CHARACTER:g}"'


PICTURES = {"cool": outlook, "sla-bert": gates, "sam-roberta": weights, "oa-xlnet": scopes}


def main() -> None:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parser", default="en_core_web_sm", help="SLA's spaCy pipeline, default: %(default)s")
    arguments = parser.parse_args()
    for family, draw in PICTURES.items():
        if (arguments.folder / family).is_dir():
            name, content = draw(arguments.folder / family, arguments.parser)
            (ASSETS / name).write_bytes(content)
            print(f"Wrote {ASSETS / name} ({len(content) / 1000:.0f} kB).")


if __name__ == "__main__":
    main()
