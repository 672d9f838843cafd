"""XML files as trees whose elements know their lines, without what makes XML unsafe."""

from __future__ import annotations

from typing import Any, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from hf_localattn.parsing import MOST_LEVELS


class Element(ElementTree.Element):
    """An element that knows in which line of its file it begins.

    Args:
        tag: its name.
        attributes: its attributes.
        line: the number of the line, from 1.
    """

    def __init__(self, tag: str, attributes: dict[str, str], line: int = 0) -> None:
        super().__init__(tag, attributes)
        self.line = line


def parse_xml(text: str, name: str) -> Element:
    """Return the root of a document. A DOCTYPE is read over: nothing that it names is opened.

    Raises:
        ValueError: it is malformed, nested too deeply, or declares entities, whose expansion could fill any memory, or
            uses ones that a DTD elsewhere would have to declare; names `name`, the line and the remedy.
    """
    parser = expat.ParserCreate()
    builder = ElementTree.TreeBuilder(lambda tag, attributes: Element(tag, attributes, parser.CurrentLineNumber))
    open_tags: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_tags) == MOST_LEVELS:  # whoever reads the tree goes down as many calls
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
            f"{name}, line {parser.CurrentLineNumber}: the entity {entity!r} is not one of XML's own five; write the"
            " character itself instead, and declare no entities."
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise ValueError(
            f"{name}, line {error.lineno}: malformed XML: {expat.ErrorString(error.code)}; every element must be"
            " closed, and a text have &amp; and &lt; for & and <."
        ) from None
    root: Any = builder.close()
    return root
