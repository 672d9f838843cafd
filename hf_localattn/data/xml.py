"""XML files of corpora, parsed by lxml: elements know their lines, and a document declares nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hf_localattn.data.rows import shorten
from hf_localattn.extras import LazyExtra

etree = LazyExtra("lxml.etree", "train", "reading XML")

Element = Any
"""An element of `lxml.etree`."""

_QUOTED = r"""\s+("[^"]*"|'[^']*')"""
_DOCTYPE = re.compile(rf"""<!DOCTYPE\s+[^\s>\["']+(\s+(SYSTEM|PUBLIC{_QUOTED}){_QUOTED})?\s*>""")


def parse_xml(text: str, name: str | Path, doctype: str = "") -> Element:
    """Parse a document and return its root. Nothing outside of the document is opened.

    Args:
        text: the XML document.
        name: name of the file, for error messages.
        doctype: root element of the corpora whose files have a DOCTYPE (without declarations), *optional*.

    Raises:
        ValueError: the document is malformed, has a DOCTYPE with declarations, or an entity that is not one of XML's
            five. The message has `name`, the line and a remedy.
    """
    # Declared entities and default values of attributes can make a small file fill the memory.
    for place in (match.start() for match in re.finditer("<!DOCTYPE", text)):
        own = _DOCTYPE.match(text, place)
        if own is None or not doctype or own[0].split()[1].rstrip(">") != doctype:
            line = text.count("\n", 0, place) + 1
            raise ValueError(f"{name}, line {line}: the DOCTYPE is not one of this corpus: remove it.")
    text = _DOCTYPE.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = re.sub(r"\A\s*<\?xml\b.*?\?>", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(
            f"{name}, line {error.lineno}: malformed XML: {error.msg}; close every element, and write &amp; and &lt;"
            " for & and <."
        ) from None


def attribute(element: Element, name: str, path: Path, choices: tuple[str, ...] = ()) -> str:
    """Return a required attribute, which has one of `choices` if there are any.

    Raises:
        ValueError: the attribute is missing, empty or none of `choices`. The message names the line.
    """
    value, where = str(element.get(name, "")).strip(), f"{path}, line {element.sourceline}"
    if not value:
        raise ValueError(f"{where}: {element.tag!r} needs a value of {name!r}.")
    if choices and value not in choices:
        expected = " or ".join(choices)
        raise ValueError(f"{where}: the {name} of a {element.tag} must be {expected}; found {shorten(value)}.")
    return value
