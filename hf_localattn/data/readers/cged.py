"""Reader for the corpora of Chinese Grammatical Error Diagnosis (CGED), with one label per character."""

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
"""Types of errors: redundant word, missing word, wrong word (selection), wrong word order."""

CGED_LABELS = ("O", *(f"{letter}-{kind}" for kind in CGED_TYPES for letter in "BI"))

# XML forbids these characters, but the corpus of 2016 has a few. Its offsets count them: replace, do not remove.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class GrammaticalError(NamedTuple):
    """An error in a text: its type and the positions of its first and last character, counted from 1."""

    kind: str
    first: int
    last: int


def load_cged(path: PathLike, *, require_labels: bool = True, skip_empty: bool = False) -> Dataset:
    """Read CGED XML (shared tasks of 2016 and later) into `tokens` (characters) and `labels`, one row per text.

    A `DOC` has a `TEXT` and an `ERROR start_off end_off type` for each error: the positions of the error's
    first and last character, counted from 1, and one of `CGED_TYPES`. Labels are IOB2 (`B-R`, `I-R`, `O`).

    A character has one label. If errors overlap, the first error in the file keeps its characters. Later errors get
    the remaining characters; each stretch begins with `B-`. Types and positions of overlapping errors are partly lost,
    but every text with an error still has an error label.

    Line breaks inside a text are dropped. Spaces are characters, except for the indentation of a text whose closing
    tag is indented too. A missing word at the end of a text is marked on the last character.

    Args:
        path: a UTF-8 file of `DOC` elements with any extension, with or without a root element.
        require_labels: raise an error if the file has no `ERROR`. If False, the file gets no labels.
        skip_empty: leave out documents with an empty text.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not in this format. The message names the line or document, and a remedy.

    Format: Lee et al. 2016, *Overview of NLP-TEA 2016 Shared Task for Chinese Grammatical Error Diagnosis*.
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
    # Documents without a root are not XML: wrap them in an element, after removing the declaration.
    text = re.sub(r"^\s*<\?xml\b.*?\?>", lambda match: "\n" * match[0].count("\n"), read_text(path), flags=re.DOTALL)
    root = parse_xml(f"<_>{_CONTROL_CHARACTER.sub(chr(0xFFFD), text)}</_>", str(path))
    documents = list(root.iter("DOC"))
    if any(document.find("SENTENCE") is not None for document in documents) or root.find(".//ESSAY") is not None:
        raise ValueError(
            f"{path}: has SENTENCE or ESSAY, the format of 2014 and 2015; only the format of 2016 and later, with"
            " DOC, TEXT and ERROR, can be read."
        )
    if not documents:
        raise ValueError(f"{path}: holds no DOC; expected CGED's DOC with a TEXT and ERRORs.")
    return documents


def _record(document: ElementTree.Element) -> Record:
    texts = document.findall("TEXT")
    identifier = texts[0].get("id") if len(texts) == 1 else None
    return {"texts": texts, "errors": list(document.iter("ERROR")), **({"id": identifier} if identifier else {})}


def _convert(record: Record) -> Record:
    if len(record["texts"]) != 1:
        raise ValueError(f"has {len(record['texts'])} TEXT elements; expected one, which the offsets refer to.")
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
            f"an ERROR from {first} to {last} is not in its TEXT of {length} characters; count from 1, and"
            " include the last character of the error."
        )
    return GrammaticalError(kind, first, last)


def _offset(error: ElementTree.Element, name: str) -> int:
    value = error.get(name, "")
    if not re.fullmatch("[0-9]{1,9}", value):
        raise ValueError(f"the {name} of an ERROR must be a character position; found {shorten(value)}.")
    return int(value)


def _labels(length: int, errors: Iterable[GrammaticalError]) -> list[str]:
    labels = ["O"] * length
    for kind, first, last in errors:
        free = [place for place in range(first - 1, last) if labels[place] == "O"]
        for previous, place in zip([None, *free], free, strict=False):
            labels[place] = f"I-{kind}" if previous == place - 1 else f"B-{kind}"
    return labels
