"""XML files of corpora, parsed by lxml: elements know their lines, and a document declares nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lxml import etree

from hf_localattn.errors import shorten

Element = Any
"""An element of `lxml.etree`."""

_QUOTED = r"""("[^"]*"|'[^']*')"""


def parse_xml(text: str, name: str | Path, doctype: str = "", has_root: bool = True) -> Element:
    """Parse the text of the file `name` and return the root. Nothing outside of the document is opened.

    A DOCTYPE, which could declare entities and default values that fill the memory, is a `ValueError`, except for one
    of the root element `doctype` without declarations. Without `has_root`, the document is put into a root element.
    """

    def line_breaks(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    if doctype:
        corpus_doctype = rf"<!DOCTYPE\s+{doctype}(\s+(SYSTEM|PUBLIC\s+{_QUOTED})\s+{_QUOTED})?\s*>"
        text = re.sub(corpus_doctype, line_breaks, text)
    position = text.find("<!DOCTYPE")
    if position >= 0:
        line = text.count("\n", 0, position) + 1
        raise ValueError(f"{name}, line {line}: the DOCTYPE is not one of this corpus: remove it.")
    text = re.sub(r"\A\s*<\?xml\b.*?\?>", line_breaks, text, flags=re.DOTALL)
    if not has_root:
        text = f"<_>{text}</_>"
    options = {"resolve_entities": False, "no_network": True, "remove_comments": True, "remove_pis": True}
    try:
        return etree.fromstring(text.encode(), etree.XMLParser(encoding="utf-8", **options))
    except etree.XMLSyntaxError as error:
        raise ValueError(
            f"{name}, line {error.lineno}: malformed XML: {error.msg}; close every element, and write &amp; and &lt;"
            " for & and <."
        ) from None


def attribute(element: Element, name: str, path: Path, choices: tuple[str, ...] = ()) -> str:
    """Return an attribute; raise `ValueError` if it is missing, empty or none of `choices`, if there are any."""
    value = str(element.get(name, "")).strip()
    where = f"{path}, line {element.sourceline}"
    if not value:
        raise ValueError(f"{where}: {element.tag!r} needs a value of {name!r}.")
    if choices and value not in choices:
        expected = " or ".join(choices)
        raise ValueError(f"{where}: the {name} of a {element.tag} must be {expected}; found {shorten(value)}.")
    return value
