"""Pictures and pages: all that is drawn is on them, in one scale of colors, and a page is whole by itself."""

from itertools import pairwise

import numpy as np
import pytest
from lxml import html

from hf_localattn.inspection import (
    AttentionMap,
    GateValues,
    TokenWeights,
    draw_features,
    draw_gates,
    draw_maps,
    draw_token_weights,
    picture,
    render_page,
)

text = pytest.importorskip("matplotlib.text", reason="the extra `plot` is not installed")


def a_map(tokens, sources=None, weights=None):
    sources = tokens if sources is None else sources
    weights = np.random.default_rng(0).random((len(tokens), len(sources))) if weights is None else weights
    return AttentionMap(tuple(tokens), tuple(sources), weights, "a map", "token that looks", "token looked at", (0,))


def words(number):
    return [f"{'long' * (i % 4)}word{i}" for i in range(number)]


def extents(figure):
    """Where the texts of a figure are, in pixels, by what they say. None is cut off by the edge."""
    figure.draw_without_rendering()
    texts = [(one.get_text(), one.get_window_extent()) for one in figure.findobj(text.Text) if one.get_text()]
    width, height = figure.canvas.get_width_height()
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [box for name, box in texts if "word" in name]
    assert all(min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
    return texts


@pytest.mark.parametrize("number", [2, 60])
def test_maps_have_all_labels_and_share_a_scale_that_is_shown(number):
    other = a_map(["$5", "^_{$"], ["not", "nor", "no"])
    figure = draw_maps([a_map(words(number)), other], ["name " * 12, "other"])
    assert {*words(number), "$5", "^_{$", "nor", "attention"} <= {name for name, _ in extents(figure)}
    first, second, bar = figure.axes
    assert first.get_tightbbox().x1 <= second.get_tightbbox().x0
    for labels, low, high in ((first.get_xticklabels(), "x0", "x1"), (first.get_yticklabels(), "y0", "y1")):
        places = sorted((getattr(box, low), getattr(box, high)) for box in (one.get_window_extent() for one in labels))
        assert len(places) == number
        assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
    assert [label.get_text() for label in second.get_yticklabels()] == ["$5", "^_{$"]
    assert [label.get_text() for label in second.get_xticklabels()] == ["not", "nor", "no"]
    assert second.yaxis_inverted()  # the first row is above
    shown = [one.images[0] for one in (first, second)]
    assert shown[1].get_array().shape == (2, 3)
    assert {one.get_clim() for one in shown} == {(0.0, max(one.get_array().max() for one in shown))}
    assert bar.get_ylabel() == "attention"
    with pytest.raises(ValueError, match="61 tokens"):
        draw_maps([a_map(words(61))])


def test_tokens_of_texts_are_broken_into_lines():
    weights = [TokenWeights(tuple(words(20)), np.linspace(0, 0.2, 20)), TokenWeights(("$word",), np.array([0.05]))]
    figure = draw_token_weights(weights, ["first", "second"], width=3.0)
    found = extents(figure)
    assert {*words(20), "$word", "first", "second", "weight of a token"} <= {name for name, _ in found}
    boxes = [box for name, box in found if "word" in name]
    assert len({round(box.y0 / 4) for box in boxes}) > 3
    assert all(one is other or not one.overlaps(other) for one in boxes for other in boxes)
    assert max(box.x1 for box in boxes) < figure.axes[0].get_tightbbox().x0
    patches = {one.get_text(): one.get_bbox_patch() for one in figure.findobj(text.Text) if one.get_bbox_patch()}
    darkness = {name: 3 - sum(patch.get_facecolor()[:3]) for name, patch in patches.items()}
    first = [darkness[word] for word in words(20)]
    assert first == sorted(first)
    assert first[0] < darkness["$word"] < first[-1]  # the second text is in the scale of the first


def test_features_that_delta_removed_are_counted_and_have_a_color_of_their_own():
    weights = [
        TokenWeights(("a", "joke"), np.ones(2) / 2, np.array(values)) for values in ([0.4, 0, 0], [0.2, 0.1, 0])
    ]
    figure = draw_features(weights, ["delta", "less"])
    shown = " ".join(name.replace("\n", " ") for name, _ in extents(figure))
    assert "delta a joke 2 of 3 removed" in shown
    assert "less a joke 1 of 3 removed" in shown
    assert figure.axes[0].images[0].get_array().mask.tolist() == [[False, True, True], [False, False, True]]
    with pytest.raises(ValueError, match="use_fam"):
        draw_features([TokenWeights(("a",), np.ones(1))])


def test_gates_are_lines_over_layers_in_a_file_of_each_form():
    means = {"syntax": np.array([0.4, 0.6]), "window": np.array([0.3, 0.5])}
    figure = draw_gates({name: GateValues((0, 2), own, 9) for name, own in means.items()})
    assert {"syntax", "window", "0", "2", "layer, from 0"} <= {name for name, _ in extents(figure)}
    lines = [line.get_xydata().tolist() for line in figure.axes[0].lines]
    assert [[0, 0.4], [2, 0.6]] in lines
    assert [[0, 0.3], [2, 0.5]] in lines
    for form, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert picture(figure, form).startswith(begin)
    assert b"<dc:date>" not in picture(figure, "svg")
    with pytest.raises(ValueError, match="'gif'"):
        picture(figure, "gif")
    with pytest.raises(ValueError, match="no gate"):
        draw_gates({})


def test_a_page_tells_all_numbers_and_needs_nothing_else():
    one = a_map(["<b>", "down"], ["a", '"', "</td>"], np.array([[0.1, 0.2, 0.0], [0.0, 0.05, 0.4]]))
    tokens = [("SAM", TokenWeights(("<i>", "joke"), np.array([0.1, 0.3])))]
    gates = {"one": GateValues((0, 2), np.array([0.5, 0.25]), 3)}
    text = render_page("What <x> looked at", maps=[("model", one)], texts=tokens, gates=gates)
    page = html.fromstring(text)
    assert all(text.count(f"<{tag}") == text.count(f"</{tag}>") for tag in ("html", "section", "table", "td", "span"))
    assert page.xpath("//td/@title")[:3] == ["<b> → a: 0.1000", '<b> → ": 0.2000', "<b> → </td>: 0.0000"]
    styles = page.xpath("//td[@title]/@style")
    assert [styles[place] for place in (2, 1, 5)] == [f"background:{one}" for one in ("#f7fbff", "#6baed6", "#08306b")]
    assert page.xpath("//span/@title") == ["0.1000", "0.3000"]
    seen = {one.strip() for one in page.itertext()}
    assert {"<b>", "down", "</td>", "What <x> looked at", "0.4", "SAM", "<i>", "0.500", "layer 2"} <= seen
    assert not page.xpath("//script | //link | //img | //iframe | //*[@src or @href]")
    assert "url(" not in text
    assert "@import" not in text
