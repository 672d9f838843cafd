"""CGED: texts of learners of Chinese with their errors, as characters with a label each."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from datasets import Dataset, Features

from hf_localattn.data import xml
from hf_localattn.data.rows import SKIP, EmptyText, Record, Source, convert_rows, read_text
from hf_localattn.errors import shorten

CGED_TYPES = ("R", "M", "S", "W")
"""Types of errors: redundant word, missing word, wrong word (selection), wrong word order."""

CGED_LABELS = ("O", *(f"{letter}-{error_type}" for error_type in CGED_TYPES for letter in "BI"))

# XML forbids these characters, but the corpus of 2016 has a few. Its offsets count them: replace, do not remove.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def load_cged(path: Path, features: Features, require_labels: bool, skip_empty: bool) -> Dataset:
    """Load a CGED file, with a row for each text; its columns `tokens` and `labels` have a value per character."""
    root = xml.parse_xml(_CONTROL_CHARACTER.sub("\ufffd", read_text(path)), path, has_root=False)
    records = []
    for document in root.iter("DOC"):
        texts = document.findall("TEXT")
        name = texts[0].get("id") if texts else None
        record = {"texts": texts, "errors": list(document.iter("ERROR")), "id": name}
        records.append((f"line {document.sourceline}", record))
    if not records:
        raise ValueError(f"{path}: holds no DOC; expected CGED's DOC with a TEXT and ERRORs, as since 2016.")
    is_labeled = any(record["errors"] for _, record in records)
    convert = partial(_convert, is_labeled=is_labeled)
    rows = convert_rows(Source(str(path), records), (), features, convert, skip_empty=skip_empty)
    if require_labels and not is_labeled:
        raise ValueError(f"{path}: has no labels: there is not one ERROR in {len(rows)} texts.")
    return rows


def _convert(record: Record, is_labeled: bool) -> Record:
    if len(record["texts"]) != 1:
        raise ValueError(f"has {len(record['texts'])} TEXT elements; expected one, as in CGED since 2016.")
    text = _read_characters(record["texts"][0])
    if not text.strip():
        raise EmptyText(f"its TEXT is empty; {SKIP}")
    labels = ["O"] * len(text)
    for error in record["errors"]:
        error_type, first, last = _read_error(error, len(text))
        previous = None
        for position in range(first - 1, last):
            if labels[position] != "O":
                continue
            letter = "B" if previous is None or previous != position - 1 else "I"
            labels[position] = f"{letter}-{error_type}"
            previous = position
    return {"tokens": list(text), "labels": labels if is_labeled else []}


def _read_characters(element: xml.Element) -> str:
    lines = "".join(element.itertext()).split("\n")
    is_indented = len(lines) > 1 and bool(lines[-1]) and not lines[-1].strip(" \t")  # the closing tag
    if is_indented:
        lines = [line.strip(" \t") for line in lines]
    return "".join(lines)


def _read_error(error: xml.Element, length: int) -> tuple[str, int, int]:
    """Return the type of an error, and the positions of its first and last character, counted from 1."""
    error_type = error.get("type", "")
    offsets = [error.get("start_off", ""), error.get("end_off", "")]
    if error_type not in CGED_TYPES or not all(re.fullmatch("[0-9]{1,9}", offset) for offset in offsets):
        attributes = shorten(dict(error.attrib))
        raise ValueError(f"an ERROR needs the type R, M, S or W, a start_off and an end_off; found {attributes}.")
    first, last = map(int, offsets)
    if error_type == "M" and first == last == length + 1:
        first = last = length
    if not 1 <= first <= last <= length:
        raise ValueError(
            f"an ERROR from {first} to {last} is not in its TEXT of {length} characters; count from 1, and"
            " include the last character of the error."
        )
    return error_type, first, last
