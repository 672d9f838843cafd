"""XML parser that records line numbers and refuses unsafe features (entities, deep nesting)."""

from __future__ import annotations

from typing import Any, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from hf_localattn.parsing import MOST_LEVELS


class Element(ElementTree.Element):
    """An XML element with the line number at which it begins.

    Args:
        tag: name of the element.
        attributes: attributes of the element.
        line: line number, counted from 1.
    """

    def __init__(self, tag: str, attributes: dict[str, str], line: int = 0) -> None:
        super().__init__(tag, attributes)
        self.line = line


def parse_xml(text: str, name: str) -> Element:
    """Parse a document and return its root. External DTDs are never opened.

    Args:
        text: the XML document.
        name: name of the file, for error messages.

    Raises:
        ValueError: the document is malformed or nested too deeply, declares entities (expanding them can exhaust the
            memory), or uses undeclared entities. The message has `name`, the line and a remedy.
    """
    parser = expat.ParserCreate()
    builder = ElementTree.TreeBuilder(lambda tag, attributes: Element(tag, attributes, parser.CurrentLineNumber))
    open_tags: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_tags) == MOST_LEVELS:  # functions that read the tree are recursive
            raise ValueError(
                f"{name}, line {parser.CurrentLineNumber}: elements are nested more than {MOST_LEVELS} deep."
            )
        open_tags.append(tag)
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        open_tags.pop()
        builder.end(tag)

    def refuse(entity: str, *_: Any) -> NoReturn:
        raise ValueError(
            f"{name}, line {parser.CurrentLineNumber}: the entity {entity!r} is not one of XML's five predefined ones;"
            " write the character itself, and declare no entities."
        )

    def doctype(root: str, system: str | None, public: str | None, has_declarations: int) -> None:
        if has_declarations:  # default values of attributes would be copied into every element
            raise ValueError(
                f"{name}, line {parser.CurrentLineNumber}: the DOCTYPE declares elements or entities: remove it."
            )

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise ValueError(
            f"{name}, line {error.lineno}: malformed XML: {expat.ErrorString(error.code)}; close every element, and"
            " write &amp; and &lt; for & and <."
        ) from None
    root: Any = builder.close()
    return root
