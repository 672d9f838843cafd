"""The page is whole by itself, and says what the arrays say."""

from html.parser import HTMLParser

import numpy as np

from hf_localattn.inspection import AttentionMap, GateValues, TokenWeights, render_page
from hf_localattn.inspection.html import color


class Page(HTMLParser):
    """Elements of a page; every one that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.add(data.strip())

    def titled(self, tag):
        return [attributes for name, attributes in self.elements if name == tag and "title" in attributes]


def test_a_page_tells_all_numbers_and_needs_nothing_else():
    weights = np.array([[0.1, 0.2, 0.0], [0.0, 0.05, 0.4]])
    a_map = AttentionMap(("<b>", "down"), ("a", '"', "</td>"), weights, "a map", "token", "token of the query", (0,))
    tokens = [("SAM", TokenWeights(("<i>", "joke"), np.array([0.1, 0.3])))]
    gates = {"one": GateValues((0, 2), np.array([0.5, 0.25]), 3)}
    text = render_page("What <x> looked at", maps=[("model", a_map)], texts=tokens, gates=gates)
    page = Page(text)
    cells = page.titled("td")
    assert [cell["title"] for cell in cells[:3]] == ["<b> → a: 0.1000", '<b> → ": 0.2000', "<b> → </td>: 0.0000"]
    assert cells[5]["style"] == f"background:{color(1.0)}"
    assert cells[1]["style"] == f"background:{color(0.5)}"
    assert [span["title"] for span in page.titled("span")] == ["0.1000", "0.3000"]
    assert {"<b>", "down", "</td>", "What <x> looked at", "0.4", "SAM", "<i>", "0.500", "layer 2"} <= page.texts
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in page.elements)
    assert "url(" not in text
    assert "@import" not in text
    assert [color(share) for share in (0.0, 0.5, 1.0)] == ["#f7fbff", "#6baed6", "#08306b"]
