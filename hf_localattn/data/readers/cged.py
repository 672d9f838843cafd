"""The corpora of Chinese Grammatical Error Diagnosis (CGED), with one label for each character."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from datasets import Dataset

from hf_localattn.data.readers.column_files import TOKEN_FEATURES
from hf_localattn.data.readers.tables import PathLike, Record, read_text, shorten
from hf_localattn.data.readers.xml_files import parse_xml
from hf_localattn.data.schema import SKIP, EmptyText, Schema

CGED_TYPES = ("R", "M", "S", "W")
"""Redundant word, missing word, wrong word (selection), wrong order of words."""

CGED_LABELS = ("O", *(f"{letter}-{kind}" for kind in CGED_TYPES for letter in "BI"))

# The corpus of 2016 has a few of these, which XML forbids. They count in its offsets, so something has to stand there.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class GrammaticalError(NamedTuple):
    """An error in a text: its type, and its first and last character, counted from 1."""

    kind: str
    first: int
    last: int


def load_cged(path: PathLike, *, require_labels: bool = True, skip_empty: bool = False) -> Dataset:
    """Read the XML of the CGED shared tasks from 2016 on into `tokens` (characters) and `labels`, one row per text.

    A `DOC` has a `TEXT` and an `ERROR start_off end_off type` for each error: the numbers of its first and last
    character, from 1, and one of `CGED_TYPES`; none if the text is correct. Labels are IOB2 (`B-R`, `I-R`, `O`).
    Of errors that overlap, the first in the file keeps its characters, and others have the ones that are left, each
    stretch beginning with B-: a character has one label. So a row has an error if and only if its text has one, but
    types and places of errors that overlap are not all told.

    Line breaks inside a text are layout. Blanks are characters, but for those that indent a text whose closing tag is
    indented too. A missing word at the end, which is behind the last character, is marked on that one.

    Args:
        path: a UTF-8 file of such documents, whatever its name, with one element around them, or none.
        require_labels: whether a file without any error is refused as one without labels; if not, it has none.
        skip_empty: whether documents with an empty text are left out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not such a file; names the line, or the document, and the remedy.

    The format: Lee et al. 2016, *Overview of NLP-TEA 2016 Shared Task for Chinese Grammatical Error Diagnosis*.
    """
    path = Path(path)
    schema = Schema("texts", (), TOKEN_FEATURES, _convert, skip_empty=skip_empty)
    rows = schema.read([(f"DOC {n}", _record(document)) for n, document in enumerate(_documents(path), 1)], str(path))
    if any(label != "O" for labels in rows["labels"] for label in labels):
        return rows
    if require_labels:
        raise ValueError(f"{path}: has no labels: there is not one ERROR in {len(rows)} texts.")
    return Dataset.from_dict({**rows.to_dict(), "labels": [[] for _ in rows]}, features=rows.features)


def _documents(path: Path) -> list[ElementTree.Element]:
    # A list of documents is not XML until there is an element around it; before that a declaration has to go.
    text = re.sub(r"^\s*<\?xml\b.*?\?>", lambda match: "\n" * match[0].count("\n"), read_text(path), flags=re.DOTALL)
    root = parse_xml(f"<_>{_CONTROL_CHARACTER.sub(chr(0xFFFD), text)}</_>", str(path))
    documents = list(root.iter("DOC"))
    if any(document.find("SENTENCE") is not None for document in documents) or root.find(".//ESSAY") is not None:
        raise ValueError(
            f"{path}: has SENTENCE or ESSAY, as the corpora of 2014 and 2015 do; only those from 2016 on are read,"
            " which have DOC, TEXT and ERROR."
        )
    if not documents:
        raise ValueError(f"{path}: holds no DOC; expected CGED's DOC, with a TEXT and its ERRORs.")
    return documents


def _record(document: ElementTree.Element) -> Record:
    texts = document.findall("TEXT")
    identifier = texts[0].get("id") if len(texts) == 1 else None
    return {"texts": texts, "errors": list(document.iter("ERROR")), **({"id": identifier} if identifier else {})}


def _convert(record: Record) -> Record:
    if len(record["texts"]) != 1:
        raise ValueError(f"has {len(record['texts'])} TEXT; expected one, as offsets count in it.")
    text = _without_layout("".join(record["texts"][0].itertext()))
    if not text.strip():
        raise EmptyText(f"its TEXT is empty; {SKIP}")
    errors = [_read_error(error, len(text)) for error in record["errors"]]
    return {"tokens": list(text), "labels": _labels(len(text), errors)}


def _without_layout(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1] and not lines[-1].strip(" \t"):
        lines = [line.strip(" \t") for line in lines]
    return "".join(lines)


def _read_error(error: ElementTree.Element, length: int) -> GrammaticalError:
    kind = error.get("type", "")
    if kind not in CGED_TYPES:
        raise ValueError(f"the type of an ERROR must be R, M, S or W; found {shorten(kind)}.")
    first, last = (_offset(error, name) for name in ("start_off", "end_off"))
    if kind == "M" and first == last == length + 1:
        first = last = length
    if not 1 <= first <= last <= length:
        raise ValueError(
            f"an ERROR from {first} to {last} is not in its TEXT of {length} characters; they are counted"
            " from 1, and the last one belongs to the error."
        )
    return GrammaticalError(kind, first, last)


def _offset(error: ElementTree.Element, name: str) -> int:
    value = error.get(name, "")
    if not re.fullmatch("[0-9]{1,9}", value):
        raise ValueError(f"the {name} of an ERROR must be the number of a character; found {shorten(value)}.")
    return int(value)


def _labels(length: int, errors: Iterable[GrammaticalError]) -> list[str]:
    labels = ["O"] * length
    for kind, first, last in errors:
        free = [place for place in range(first - 1, last) if labels[place] == "O"]
        for previous, place in zip([None, *free], free, strict=False):
            labels[place] = f"I-{kind}" if previous == place - 1 else f"B-{kind}"
    return labels
