"""Drawing of maps, weights and gates with matplotlib's objects, without windows or global state.

Each function returns a figure with a size that fits its content. `picture` converts a figure to a file's content.
"""

from __future__ import annotations

import io
import logging
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from hf_localattn.extras import import_extra
from hf_localattn.inspection.maps import AttentionMap
from hf_localattn.inspection.weights import GateValues, TokenWeights

logger = logging.getLogger(__name__)

FORMATS = ("png", "svg", "pdf")
MOST_TOKENS = 60
"""Largest number of rows or columns of a map in a picture."""

EXTRA = ("plot", "drawing")
COLORS = "Blues"
FONT_SIZE, POINTS = 9, 72
"""Font size of all texts in points, and points per inch."""

# In inches:
PAD = 0.12  # margin of a figure and between its parts
CELL, LARGE_CELL, FEW = 0.22, 0.36, 12  # size of a map's cells; the large size is for at most FEW tokens
BAR, SMALLEST = 0.16, 1.2  # width and minimum height of a color bar
LINE, GAP, BOX = 0.27, 0.06, 0.2  # height of a line; gap between tokens; padding of a token, relative to the font size

# Fonts for scripts that matplotlib's default font lacks. Installed ones are used.
OTHER_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "PingFang SC", "Hiragino Sans GB"),
    *("Microsoft YaHei", "SimHei", "Arial Unicode MS", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari"),
    *("Unifont", "Noto Emoji", "Symbola"),
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
    headings = _headings(titles, [one.title for one in maps], "map")
    largest = max(max(one.weights.shape) for one in maps)
    if largest > MOST_TOKENS:
        raise ValueError(
            f"a map of {largest} tokens is too large for a picture, which has room for {MOST_TOKENS}: write a .html"
            " file, or give a shorter text."
        )
    figure = _figure()
    most = max(float(one.weights.max()) for one in maps) or 1.0
    cell = CELL if largest > FEW else LARGE_CELL
    image, tallest = None, 0.0
    for one, heading in zip(maps, headings, strict=True):
        rows, columns = one.weights.shape
        axes = _add_axes(figure, columns * cell, rows * cell)
        image = axes.imshow(one.weights, cmap=COLORS, vmin=0.0, vmax=most, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(columns), labels=one.sources, rotation=90)
        axes.set_yticks(range(rows), labels=one.tokens)
        axes.set_xlabel(one.column_label)
        axes.set_ylabel(one.row_label)
        _entitle(axes, heading, columns * cell)
        tallest = max(tallest, rows * cell)
    scale = _add_axes(figure, BAR, max(tallest, SMALLEST))
    figure.colorbar(image, cax=scale, label="attention")
    return _side_by_side(figure)


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
    headings = _headings(titles, [""] * len(weights), "text")
    figure = _figure()
    most = max((float(one.weights.max()) for one in weights if len(one.weights)), default=0.0) or 1.0
    shade = import_extra("matplotlib.cm", *EXTRA).ScalarMappable(cmap=COLORS)
    shade.set_clim(0.0, most)
    families, _ = _families({letter for one in weights for token in one.tokens for letter in token})
    axes = _add_axes(figure, width, 1.0)
    axes.set_axis_off()
    y = LINE / 2
    for one, heading in zip(weights, headings, strict=True):
        if heading:
            axes.text(0.0, y, heading, weight="bold", verticalalignment="center")
            y += LINE
        x = 0.0
        for token, weight in zip(one.tokens, one.weights, strict=True):
            style = {"family": families, "fontsize": FONT_SIZE, "parse_math": False, "verticalalignment": "center"}
            box = {"boxstyle": f"square,pad={BOX}", "facecolor": shade.to_rgba(weight), "edgecolor": "0.7", "lw": 0.3}
            text = axes.text(0.0, 0.0, token, color="white" if weight > 0.6 * most else "black", bbox=box, **style)
            border = BOX * FONT_SIZE / POINTS
            length = text.get_window_extent().width / figure.dpi + 2 * border + GAP
            if x and x + length > width:
                x, y = 0.0, y + LINE
            text.set_position((x + border, y))
            x += length
        y += 1.5 * LINE
    axes.set(xlim=(0.0, width), ylim=(y - LINE, 0.0), position=(0.0, 0.0, width, y - LINE))
    scale = _add_axes(figure, BAR, min(max(y, SMALLEST), 3.0))
    figure.colorbar(shade, cax=scale, label="weight of a token")
    return _side_by_side(figure)


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
    _check_not_empty(gates, "gate")
    figure = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, one) in enumerate(gates.items()):
        axes.plot(one.layers, one.means, marker="osD^vPX*"[number % 8], markersize=5, label=name)
    places = sorted({layer for one in gates.values() for layer in one.layers})
    if len(places) <= 16:
        axes.set_xticks(places)
    axes.grid(alpha=0.3)
    axes.set(xlabel="layer, from 0", ylabel="mean gate (0 global, 1 local)")
    figure.legend(loc="outside right upper", frameon=False)  # so that it hides no line
    _settle_texts(figure)
    return figure


def picture(figure: Any, form: str) -> bytes:
    """Convert a figure into the content of a file. The file has no date, so that it is reproducible.

    Args:
        figure: A `matplotlib.figure.Figure`.
        form: "png", "svg" or "pdf".

    Raises:
        ValueError: The format is unknown.
    """
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    if form not in undated:
        raise ValueError(f"the format is {form!r}; choose one of {', '.join(FORMATS)}.")
    content = io.BytesIO()
    with _said_already():
        figure.savefig(content, format=form, dpi=150, metadata=undated[form])
    return content.getvalue()


def _headings(titles: Sequence[str] | None, own: Sequence[str], what: str) -> list[str]:
    """Return the heading of each result: its title and description."""
    _check_not_empty(own, what)
    if titles is None:
        return list(own)
    if len(titles) != len(own):
        raise ValueError(f"{len(titles)} titles for {len(own)} {what}s; give one for each.")
    return [f"{title}\n{text}".strip() for title, text in zip(titles, own, strict=True)]


def _check_not_empty(things: Any, what: str) -> None:
    if not things:
        raise ValueError(f"there is no {what} to draw.")


def _figure() -> Any:
    """Create an empty figure of one inch. Its relative coordinates are inches."""
    figure = import_extra("matplotlib.figure", *EXTRA).Figure(figsize=(1, 1))
    import_extra("matplotlib.backends.backend_agg", *EXTRA).FigureCanvasAgg(figure)
    return figure


def _add_axes(figure: Any, width: float, height: float) -> Any:
    return figure.add_axes((0.0, 0.0, width, height))


def _entitle(axes: Any, heading: str, width: float) -> None:
    letters = max(int(width * 12), 28)
    lines = (line for text in heading.split("\n") for line in textwrap.wrap(text, letters))
    axes.set_title("\n".join(lines), loc="left")


def _side_by_side(figure: Any) -> Any:
    """Arrange the axes of a figure side by side, aligned at the top, and fit the size of the figure."""
    _settle_texts(figure)
    renderer = figure.canvas.get_renderer()
    places, extents, right = [], [], 0.0
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        with _said_already():
            shown = axes.get_tightbbox(renderer)
        x0, y0, x1, y1 = (edge / figure.dpi for edge in shown.extents)
        x, y = right + left - x0, -height  # begin at the end of the last one, with the upper edge at 0
        places.append((x, y, width, height))
        extents.append((y + y0 - bottom, y + y1 - bottom))
        right += x1 - x0 + PAD
    lowest, highest = min(low for low, _ in extents), max(high for _, high in extents)
    total_width, total_height = right + PAD, highest - lowest + 2 * PAD
    figure.set_size_inches(total_width, total_height)
    for axes, (x, y, width, height) in zip(figure.axes, places, strict=True):
        place = (x + PAD) / total_width, (y - lowest + PAD) / total_height
        axes.set_position((*place, width / total_width, height / total_height))
    return figure


def _settle_texts(figure: Any) -> None:
    """Set fonts that have all characters of the texts, and switch off math mode (`$`)."""
    texts = figure.findobj(import_extra("matplotlib.text", *EXTRA).Text)
    families, missing = _families({letter for text in texts for letter in text.get_text()} - {"\n"})
    if missing:
        logger.warning(
            "No installed font has the characters %s: boxes are drawn. Install one, such as Noto Sans CJK, or"
            " write .html.",
            " ".join(sorted(missing)[:20]),
        )
    for text in texts:
        text.set(family=families, fontsize=FONT_SIZE, parse_math=False)


@contextmanager
def _said_already() -> Iterator[None]:
    """Suppress matplotlib's warnings for each missing character. `_settle_texts` has warned of all characters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _families(letters: set[str]) -> tuple[list[str], set[str]]:
    """Return the required installed fonts, matplotlib's default first, and the characters missing in all fonts."""
    chosen: list[str] = []
    missing = letters
    for family in ("DejaVu Sans", *OTHER_FONTS):
        if missing & _letters(family) or not chosen:
            chosen.append(family)
            missing = missing - _letters(family)
        if not missing:
            break
    return chosen, missing


@cache
def _letters(family: str) -> frozenset[str]:
    """Return the characters of a font; none if it is not installed."""
    manager = import_extra("matplotlib.font_manager", *EXTRA)
    if family not in manager.get_font_names():
        return frozenset()
    path = manager.findfont(manager.FontProperties(family=[family]))
    return frozenset(map(chr, manager.get_font(path).get_charmap()))
