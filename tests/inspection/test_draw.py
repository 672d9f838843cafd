"""Pictures: everything that is drawn is on them, and in one scale of colors."""

import logging
from itertools import pairwise

import numpy as np
import pytest

from hf_localattn.inspection import (
    AttentionMap,
    GateValues,
    TokenWeights,
    draw_gates,
    draw_maps,
    draw_token_weights,
    picture,
)

text = pytest.importorskip("matplotlib.text", reason="the extra `plot` is not installed")


def a_map(tokens, sources=None, scale=1.0):
    sources = tokens if sources is None else sources
    weights = np.random.default_rng(0).random((len(tokens), len(sources))) * scale
    return AttentionMap(tuple(tokens), tuple(sources), weights, "a map", "token that looks", "token looked at", (0,))


def words(number):
    return [f"{'long' * (i % 4)}word{i}" for i in range(number)]


def extents(figure):
    """Where the texts of a figure are, in pixels, by what they say."""
    figure.draw_without_rendering()
    texts = (one for one in figure.findobj(text.Text) if one.get_text())
    return [(one.get_text(), one.get_window_extent()) for one in texts]


def assert_whole(figure, expected):
    """These texts are there, and nothing that is drawn is cut off by the edge."""
    found = extents(figure)
    assert set(expected) <= {name for name, _ in found}
    width, height = figure.canvas.get_width_height()
    boxes = [box for name, box in found if name in expected]
    boxes += [axes.get_tightbbox() for axes in figure.axes]
    for box in boxes:
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= width
        assert box.y1 <= height


@pytest.mark.parametrize("number", [2, 60])
def test_no_label_of_a_map_is_clipped_or_covers_another(number):
    figure = draw_maps([a_map(words(number)), a_map(["cat"], ["not", "nor"])], ["name " * 12, "other"])
    assert_whole(figure, [*words(number), "cat", "nor", "attention"])
    for labels, low, high in (
        (figure.axes[0].get_xticklabels(), "x0", "x1"),
        (figure.axes[0].get_yticklabels(), "y0", "y1"),
    ):
        places = sorted((getattr(box, low), getattr(box, high)) for box in (one.get_window_extent() for one in labels))
        assert len(places) == number
        assert all(end <= begin for (_, end), (begin, _) in pairwise(places))


def test_maps_share_a_scale_that_is_shown():
    figure = draw_maps([a_map("ab"), a_map("cde", scale=0.1)])
    assert [axes.images[0].get_clim() for axes in figure.axes[:2]] == [(0.0, a_map("ab").weights.max())] * 2
    assert figure.axes[2].get_ylabel() == "attention"


def test_rows_of_a_map_are_its_first_tokens():
    axes = draw_maps([a_map(["up", "down"], ["left", "mid", "right"])]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["up", "down"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["left", "mid", "right"]
    assert axes.images[0].get_array().shape == (2, 3)
    assert axes.yaxis_inverted()  # the first row is above


def test_a_dollar_is_no_formula():
    assert_whole(draw_maps([a_map(["$5", "^_{$", "\\n", "<b>"])], ["$a^$"]), ["$5", "^_{$", "\\n", "<b>"])


def test_letters_that_no_font_has_are_told(caplog):
    with caplog.at_level(logging.WARNING):
        picture(draw_maps([a_map(["\U00012000", "cat"])]), "png")
    assert "No installed font has the characters \U00012000" in caplog.text
    caplog.clear()
    draw_maps([a_map(["caté\u2581", "…"])])
    assert not caplog.text


def test_tokens_of_texts_are_broken_into_lines():
    weights = [TokenWeights(tuple(words(20)), np.linspace(0, 0.2, 20)), TokenWeights(("cat",), np.array([0.05]))]
    figure = draw_token_weights(weights, ["first", "second"], width=3.0)
    assert_whole(figure, [*words(20), "cat", "first", "second", "weight of a token"])
    boxes = [box for name, box in extents(figure) if "word" in name]
    lines = {round(box.y0 / 4) for box in boxes}
    assert len(lines) > 3
    for one in boxes:
        for other in boxes:
            assert one is other or not one.overlaps(other)
    patches = [one.get_bbox_patch().get_facecolor()[:3] for one in figure.axes[0].texts if one.get_bbox_patch()]
    darkness = [3 - sum(color) for color in patches]
    assert darkness[:20] == sorted(darkness[:20])
    assert darkness[0] < darkness[20] < darkness[19]  # the second text is in the scale of the first


def test_gates_are_lines_over_layers():
    gates = {
        "syntax": GateValues((0, 2), np.array([0.4, 0.6]), 9),
        "window": GateValues((0, 2), np.array([0.3, 0.5]), 9),
    }
    figure = draw_gates(gates)
    assert_whole(figure, ["syntax", "window", "0", "2", "layer, from 0"])
    lines = [line.get_xydata().tolist() for line in figure.axes[0].lines]
    assert [[0, 0.4], [2, 0.6]] in lines
    assert [[0, 0.3], [2, 0.5]] in lines


@pytest.mark.parametrize(("form", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_is_a_file(form, begin):
    content = picture(draw_gates({"a": GateValues((0,), np.array([0.4]), 9)}), form)
    assert content.startswith(begin)
    assert b"2026-" not in content or form != "svg"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: draw_maps([a_map(words(61))]),
            "a map of 61 tokens is too large for a picture, which has room for 60: write",
        ),
        (lambda: draw_maps([]), "there is no map to draw"),
        (lambda: draw_maps([a_map("ab")], ["a", "b"]), "2 titles for 1 maps"),
        (lambda: draw_gates({}), "there is no gate to draw"),
        (lambda: picture(draw_maps([a_map("ab")]), "gif"), "the format is 'gif'; choose one of png, svg, pdf"),
    ],
)
def test_what_cannot_be_drawn_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()
