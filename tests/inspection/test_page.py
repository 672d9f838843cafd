"""The page is whole by itself, and says what the arrays say."""

from html.parser import HTMLParser

import numpy as np

from hf_localattn.inspection import AttentionMap, GateValues, TokenWeights, render_page
from hf_localattn.inspection.html import color

VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """Elements of a page; every one that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"] and data.strip():
            self.texts.append(data.strip())

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


WEIGHTS = np.array([[0.1, 0.2, 0.0], [0.0, 0.05, 0.4]])
MAP = AttentionMap(("<b>", "down"), ("a", '"', "</td>"), WEIGHTS, "a map", "token", "token of the query", (0,))


def test_a_map_is_a_table_whose_cells_tell_their_numbers():
    page = Page(render_page("What <x> looked at", maps=[("model", MAP)]))
    cells = [cell for cell in page.of("td") if "title" in cell]
    assert [cell["title"] for cell in cells[:3]] == ["<b> → a: 0.1000", '<b> → ": 0.2000', "<b> → </td>: 0.0000"]
    assert len(cells) == 6
    assert cells[5]["style"] == f"background:{color(1.0)}"
    assert cells[1]["style"] == f"background:{color(0.5)}"
    assert {"<b>", "down", "</td>", "What <x> looked at", "0.4"} <= set(page.texts)


def test_a_page_needs_nothing_else():
    text = render_page("t", maps=[("model", MAP)], texts=[("", TokenWeights(("a",), np.array([0.3])))])
    page = Page(text)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in page.elements)
    assert "url(" not in text
    assert "@import" not in text


def test_tokens_and_gates():
    page = Page(
        render_page(
            "t",
            texts=[("SAM", TokenWeights(("<i>", "joke"), np.array([0.25, 0.75])))],
            gates={"one": GateValues((0, 2), np.array([0.5, 0.25]), 3)},
        )
    )
    assert [span["title"] for span in page.of("span") if "title" in span] == ["0.2500", "0.7500"]
    assert {"SAM", "<i>", "0.500", "0.250", "layer 2"} <= set(page.texts)


def test_colors_run_from_light_to_dark():
    assert [color(share) for share in (0.0, 0.5, 1.0)] == ["#f7fbff", "#6baed6", "#08306b"]
