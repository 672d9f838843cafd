"""Helpers for BioScope and SFU. Both mark cues and scopes by XML elements around words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element as AnyElement

from hf_localattn.data.readers.negation.rows import CUE_KINDS
from hf_localattn.data.readers.tables import read_text, shorten
from hf_localattn.data.readers.xml_files import Element, parse_xml

# Some texts of SFU were saved as Windows-1252. Their quotation marks and dots become control characters when they are
# read as Unicode. Tokenizers drop control characters, so the cue "don't" would lose its apostrophe.
_WINDOWS_1252 = {
    code: character for code in range(0x80, 0xA0) if (character := bytes([code]).decode("cp1252", errors="ignore"))
}


def read_root(path: Path, tag: str, corpus: str) -> Element:
    """Parse an XML file of a corpus, and return its root after checking the root's tag.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not XML, or its root has another tag.
    """
    root = parse_xml(read_text(path), str(path))
    if root.tag != tag:
        raise ValueError(f"{path}, line {root.line}: the root element is {root.tag!r}; {corpus} has {tag!r} there.")
    return root


def read_words(sentence: AnyElement) -> tuple[list[str], dict[AnyElement, range]]:
    """Return the words of a sentence, and the range of words inside each of its elements.

    Words end at white space and at every tag, so all rows of a sentence have the same words.
    """
    words: list[str] = []
    places: dict[AnyElement, range] = {}

    def visit(element: AnyElement) -> None:
        first = len(words)
        words.extend(_split(element.text))
        for child in element:
            visit(child)
            words.extend(_split(child.tail))
        places[element] = range(first, len(words))

    visit(sentence)
    return words, places


def union(elements: Iterable[AnyElement], places: dict[AnyElement, range]) -> set[int]:
    """Return the indices of all words in any of the elements."""
    return {place for element in elements for place in places[element]}


def attribute(element: AnyElement, name: str, path: Path) -> str:
    """Return a required attribute.

    Raises:
        ValueError: the attribute is missing or empty. The message names the line.
    """
    value = element.get(name, "").strip()
    if not value:
        raise ValueError(f"{line_of(element, path)}: {element.tag!r} needs a value of {name!r}.")
    return value


def cue_kind(cue: AnyElement, path: Path) -> str:
    """Return the kind of a cue, one of `CUE_KINDS`, or raise ValueError."""
    kind = attribute(cue, "type", path)
    if kind not in CUE_KINDS:
        raise ValueError(
            f"{line_of(cue, path)}: the type of a cue must be {' or '.join(CUE_KINDS)}; found {shorten(kind)}."
        )
    return kind


def cue_words(pieces: list[AnyElement], places: dict[AnyElement, range], path: Path) -> set[int]:
    """Return the indices of a cue's words, or raise ValueError if it has none."""
    words = union(pieces, places)
    if not words:
        raise ValueError(f"{line_of(pieces[0], path)}: a cue has no words.")
    return words


def line_of(element: AnyElement, path: Path) -> str:
    """Return the file and line at which an element begins."""
    return f"{path}, line {element.line}" if isinstance(element, Element) else str(path)


def _split(text: str | None) -> list[str]:
    return (text or "").translate(_WINDOWS_1252).split()
