"""Drawing of maps, weights and gates with matplotlib's objects, without windows.

Each function returns a figure with a size that fits its content. `picture` converts a figure to a file's content.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hf_localattn.extras import import_extra
from hf_localattn.inspection.maps import AttentionMap
from hf_localattn.inspection.weights import GateValues, TokenWeights, scale_label

FORMATS = ("png", "svg", "pdf")
MOST_TOKENS = 60
"""Largest number of rows or columns of a map in a picture."""

EXTRA = ("plot", "drawing")
COLORS = "Blues"

# In inches:
CELL = 0.24  # size of a map's cells
LARGE_CELL = 0.38  # with at most FEW tokens
LETTER = 0.09  # width of a letter, roughly
LINE = 0.17  # height of a line of text
LEAST_WIDTH = 2.6  # of a map, so that its title has some letters a line
BAR = 0.16  # width of a color bar
GAP = 0.1  # between tokens

FEW = 12
"""Largest number of tokens of a map with large cells."""

# matplotlib's font, and fonts for scripts that it lacks. Installed ones are used.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "Arial Unicode MS",
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Unifont",
    "Noto Emoji",
    "Symbola",
)


def draw_maps(maps: Sequence[AttentionMap], titles: Sequence[str] | None = None) -> Any:
    """Draw maps side by side with one color bar. Rows are the attending tokens.

    Args:
        maps: Maps with at most `MOST_TOKENS` rows and columns.
        titles (*optional*): Titles of the maps, such as names of models, above their descriptions.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: There are no maps, a map is too large, or the number of titles is wrong.
        ImportError: matplotlib is not installed.
    """
    headings = _headings(titles, [attention_map.title for attention_map in maps], "map")
    largest = max(max(attention_map.weights.shape) for attention_map in maps)
    if largest > MOST_TOKENS:
        raise ValueError(
            f"a map of {largest} tokens is too large for a picture, which has room for {MOST_TOKENS}: write a .html"
            " file, or give a shorter text."
        )
    cell = CELL if largest > FEW else LARGE_CELL
    most = max(float(attention_map.weights.max()) for attention_map in maps) or 1.0
    widths = [max(attention_map.weights.shape[1] * cell, LEAST_WIDTH) for attention_map in maps]
    texts = [_wrapped(heading, width) for heading, width in zip(headings, widths, strict=True)]
    width = sum(widths) + sum(_label_width(attention_map.tokens) for attention_map in maps) + 1.0  # of the color bar
    lines = max(text.count("\n") + 1 for text in texts)
    heights = [len(attention_map.weights) * cell + _label_width(attention_map.sources) for attention_map in maps]
    height = max(heights) + lines * LINE + 0.2
    with _style():
        new_figure = import_extra("matplotlib.figure", *EXTRA).Figure
        figure = new_figure(figsize=(width, height), layout="constrained")
        every_axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
        for attention_map, text, axes in zip(maps, texts, every_axes, strict=True):
            image = axes.imshow(attention_map.weights, cmap=COLORS, vmin=0.0, vmax=most, interpolation="nearest")
            axes.set_xticks(range(len(attention_map.sources)), labels=attention_map.sources, rotation=90)
            axes.set_yticks(range(len(attention_map.tokens)), labels=attention_map.tokens)
            axes.set(xlabel=attention_map.column_label, ylabel=attention_map.row_label)
            axes.set_title(text, loc="left")
        figure.colorbar(image, ax=list(every_axes), label="attention", aspect=height / BAR)
        for axes in every_axes:
            axes.set_anchor("NW")
    return figure


def _label_width(tokens: Sequence[str]) -> float:
    """Return the width in inches of the longest token, and of the label of the axis beside the tokens."""
    return max(len(token) for token in tokens) * LETTER + 0.4


def _wrapped(heading: str, width: float) -> str:
    """Return a heading with line breaks, so that it fits a width in inches."""
    letters = int(width / LETTER)
    return "\n".join(line for text in heading.split("\n") for line in textwrap.wrap(text, letters))


def draw_token_weights(
    weights: Sequence[TokenWeights], titles: Sequence[str] | None = None, width: float = 7.5
) -> Any:
    """Draw the tokens of texts in lines, darker for larger weights, with one color bar.

    Args:
        weights: Token weights of each text.
        titles (*optional*): Titles of the texts, such as names of models.
        width (*optional*, defaults to 7.5): Width of the lines in inches.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: There are no texts, or the number of titles is wrong.
        ImportError: matplotlib is not installed.
    """
    headings = _headings(titles, [of_text.title for of_text in weights], "text")
    packing = import_extra("matplotlib.offsetbox", *EXTRA)
    most = max((float(of_text.weights.max()) for of_text in weights if len(of_text.weights)), default=0.0)
    most = most if most > 0 else 1.0
    shade = import_extra("matplotlib.cm", *EXTRA).ScalarMappable(cmap=COLORS)
    shade.set_clim(0.0, most)
    figure, renderer = _figure()
    texts = []
    with _style():
        for of_text, heading in zip(weights, headings, strict=True):
            lines: list[Any] = []
            if heading:
                lines.append([packing.TextArea(_wrapped(heading, width), textprops={"weight": "bold"})])
            room = 0.0
            for token, weight in zip(of_text.tokens, of_text.weights, strict=True):
                box = {"boxstyle": "square,pad=0.2", "facecolor": shade.to_rgba(weight), "edgecolor": "0.7", "lw": 0.3}
                color = "white" if weight > 0.6 * most else "black"
                area = packing.TextArea(token, textprops={"color": color, "bbox": box})
                area.set_figure(figure)
                length = area.get_bbox(renderer).width / figure.dpi + GAP
                if room < length:
                    room = width
                    lines.append([])
                room -= length
                lines[-1].append(area)
            rows = [packing.HPacker(children=line, pad=0, sep=72 * GAP, align="baseline") for line in lines]
            texts.append(packing.VPacker(children=rows, pad=0, sep=8, align="left"))
        column = packing.VPacker(children=texts, pad=4, sep=16, align="left")
        column.set_figure(figure)
        height = max(column.get_bbox(renderer).height / figure.dpi, 1.2)
        figure.set_size_inches(width + 0.9, height)
        corner = {"bbox_to_anchor": (0, 1), "bbox_transform": figure.transFigure, "frameon": False, "borderpad": 0}
        figure.add_artist(packing.AnchoredOffsetbox("upper left", child=column, **corner))
        bar = min(0.9, 3 / height)
        scale = figure.add_axes((width / (width + 0.9), 0.95 - bar, BAR / (width + 0.9), bar))
        figure.colorbar(shade, cax=scale, label=scale_label(weights))
    return figure


def draw_features(weights: Sequence[TokenWeights], titles: Sequence[str] | None = None) -> Any:
    """Draw the feature weights of texts, one row per text. Features that a model's delta removed are red.

    Args:
        weights: Token weights of each text, with `features`.
        titles (*optional*): Titles of the texts.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: There are no texts, a text has no feature weights, or the number of titles is wrong.
        ImportError: matplotlib is not installed.
    """
    texts = [textwrap.shorten(" ".join(text.tokens), 60) for text in weights]
    headings = _headings(titles, texts, "text")
    rows = [text.features for text in weights if text.features is not None]
    if len(rows) < len(weights):
        raise ValueError("a text has no feature weights: use a model that returns `feature_attention`.")
    labels = []
    for heading, row in zip(headings, rows, strict=True):
        removed = int((row == 0).sum())
        labels.append(_wrapped(f"{heading}\n{removed} of {len(row)} removed", LEAST_WIDTH))
    height = sum(label.count("\n") + 1.5 for label in labels) * LINE + 0.8
    with _style():
        figure = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(9, height), layout="constrained")
        axes = figure.add_subplot()
        shades = import_extra("matplotlib", *EXTRA).colormaps[COLORS].with_extremes(bad="tab:red")
        shown = np.ma.masked_equal(np.stack(rows), 0.0)
        image = axes.imshow(shown, cmap=shades, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        axes.set_yticks(range(len(labels)), labels=labels)
        axes.set(xlabel="feature (red: removed by delta)")
        figure.colorbar(image, label="weight of a feature")
    return figure


def draw_gates(gates: Mapping[str, GateValues]) -> Any:
    """Draw the mean gate of each layer, one line per model (figure 2 of the SLA paper).

    Args:
        gates: Gates by the name of the model.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: There are no gates.
        ImportError: matplotlib is not installed.
    """
    _headings(None, list(gates), "gate")
    with _style():
        figure = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for index, (name, values) in enumerate(gates.items()):
            axes.plot(values.layers, values.means, marker="osD^vPX*"[index % 8], markersize=5, label=name)
        layers = sorted({layer for values in gates.values() for layer in values.layers})
        if len(layers) <= 16:
            axes.set_xticks(layers)
        axes.grid(alpha=0.3)
        axes.set(xlabel="layer, from 0", ylabel="mean gate (0 global, 1 local)")
        figure.legend(loc="outside right upper", frameon=False)  # so that it hides no line
    return figure


def picture(figure: Any, form: str) -> bytes:
    """Convert a figure into the content of a file. The file has no date, so that it is reproducible.

    Args:
        figure: A `matplotlib.figure.Figure`.
        form: "png", "svg" or "pdf".

    Raises:
        ValueError: The format is unknown.
    """
    undated: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    if form not in undated:
        raise ValueError(f"the format is {form!r}; choose one of {', '.join(FORMATS)}.")
    content = io.BytesIO()
    figure.savefig(content, format=form, dpi=150, metadata=undated[form])
    return content.getvalue()


def _headings(titles: Sequence[str] | None, descriptions: Sequence[str], what: str) -> list[str]:
    """Return the heading of each result: its title and description."""
    if not descriptions:
        raise ValueError(f"there is no {what} to draw.")
    if titles is None:
        return list(descriptions)
    if len(titles) != len(descriptions):
        raise ValueError(f"{len(titles)} titles for {len(descriptions)} {what}s; give one for each.")
    return [f"{title}\n{text}".strip() for title, text in zip(titles, descriptions, strict=True)]


def _figure() -> tuple[Any, Any]:
    """Return an empty figure of one inch, whose relative coordinates are inches, and its renderer."""
    figure = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(1, 1))
    return figure, import_extra("matplotlib.backends.backend_agg", *EXTRA).FigureCanvasAgg(figure).get_renderer()


def _style() -> Any:
    """Return a context in which texts have small letters, in fonts that are installed, and `$` is a letter."""
    installed = import_extra("matplotlib.font_manager", *EXTRA).get_font_names()
    fonts = [name for name in FONTS if name in installed]
    settings = {"font.family": fonts, "font.size": 9, "axes.titlesize": 9, "text.parse_math": False}
    return import_extra("matplotlib", *EXTRA).rc_context(settings)
