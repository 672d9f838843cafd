"""Drawing of maps, weights and curves with matplotlib's objects, without windows or global state.

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

import numpy as np

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

Series = Mapping[Any, float | Sequence[float]]
"""Value or values by place. Several values, such as scores of several seeds, are drawn as mean and deviation."""


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
    series = {name: dict(zip(one.layers, one.means, strict=True)) for name, one in gates.items()}
    return draw_curves(series, x_label="layer, from 0", y_label="mean gate (0 global, 1 local)")


def draw_curves(
    curves: Mapping[str, Series], *, x_label: str, y_label: str, title: str = "", bands: bool = False
) -> Any:
    """Draw values against numbers, one line per name, with error bars for several values of one number.

    Args:
        curves: Values by name and number, such as {"with": {1: [80.1, 80.3], 2: [80.9, 80.7]}}.
        x_label: Label of the x axis.
        y_label: Label of the y axis.
        title (*optional*): Title of the figure.
        bands (*optional*, defaults to False): Draw bands in place of error bars.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: There are no curves.
        ImportError: matplotlib is not installed.
    """
    _check_not_empty(curves, "curve")
    figure = _figure()
    axes = _add_axes(figure, 5.0, 3.2)
    places = sorted({place for values in curves.values() for place in values})
    for number, (name, values) in enumerate(curves.items()):
        xs = sorted(values)
        means, deviations = _means_and_deviations([values[x] for x in xs])
        style = {"marker": "osD^vPX*"[number % 8], "markersize": 5, "capsize": 3, "label": name}
        bars = None if bands or np.isnan(deviations).all() else deviations
        line = axes.errorbar(xs, means, yerr=bars, **style)[0]
        if bands:
            low, high = np.subtract(means, deviations), np.add(means, deviations)
            axes.fill_between(xs, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    if len(places) <= 16:
        axes.set_xticks(places)
    axes.grid(alpha=0.3)
    return _finish_plot(figure, axes, x_label, _explained(y_label, curves), title, len(curves))


def draw_bars(bars: Mapping[str, Series], *, y_label: str, x_label: str = "", title: str = "") -> Any:
    """Draw values of groups, one bar per group and name, with error bars for several values of one bar.

    Args:
        bars: Values by name and group, such as {"Augment": {"em": [88.1, 87.9], "emb": 88.4}}. A missing group has no
            bar. Values may be negative.
        y_label: Label of the y axis.
        x_label (*optional*): Label of the x axis.
        title (*optional*): Title of the figure.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: There are no bars.
        ImportError: matplotlib is not installed.
    """
    _check_not_empty(bars, "bar")
    groups = list(dict.fromkeys(group for values in bars.values() for group in values))
    figure = _figure()
    axes = _add_axes(figure, max(4.0, 0.35 * len(groups) * (len(bars) + 1)), 3.2)
    thickness = 0.8 / len(bars)
    for number, (name, values) in enumerate(bars.items()):
        own = [place for place, group in enumerate(groups) if group in values]
        means, deviations = _means_and_deviations([values[groups[place]] for place in own])
        xs = [place + (number - (len(bars) - 1) / 2) * thickness for place in own]
        axes.bar(xs, means, thickness, yerr=deviations, capsize=3, label=name)
    longest = max(len(str(group)) for group in groups)
    axes.set_xticks(range(len(groups)), labels=groups, rotation=90 if longest > 8 else 0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return _finish_plot(figure, axes, x_label, _explained(y_label, bars), title, len(bars))


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


def _means_and_deviations(values: Sequence[float | Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the mean and sample deviation of each. A single value has the deviation NaN, which is not drawn."""
    rows = [np.atleast_1d(np.asarray(one, dtype=float)) for one in values]
    return [float(row.mean()) for row in rows], [float(row.std(ddof=1)) if len(row) > 1 else np.nan for row in rows]


def _explained(y_label: str, series: Mapping[str, Series]) -> str:
    """Return the label of the y axis. It explains the error bars, if any."""
    deviates = any(np.size(one) > 1 for values in series.values() for one in values.values())
    return f"{y_label}, ± deviation" if deviates else y_label


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


def _finish_plot(figure: Any, axes: Any, x_label: str, y_label: str, title: str, number: int) -> Any:
    axes.set(xlabel=x_label, ylabel=y_label)
    if number > 1 or not title:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)  # outside, so that it hides no line
    if title:
        _entitle(axes, title, 5.0)
    return _side_by_side(figure)


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
