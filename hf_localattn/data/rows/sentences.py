"""Rows of token classification: sentences as lists of words, with a label for each word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset

from hf_localattn.data.readers.cged import CGED_LABELS, load_cged
from hf_localattn.data.readers.column_files import TOKEN_FEATURES, load_conll, load_conllu
from hf_localattn.data.readers.tables import PathLike, Record, describe_value, read_text, shorten
from hf_localattn.data.schema import Column, Schema, row_numbers
from hf_localattn.parsing import parse_json

ROW_SUFFIXES = (".json", ".jsonl")
COLUMN_SUFFIXES = (".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2")


@dataclass(frozen=True)
class TokenColumns:
    """Columns of words and labels.

    Args:
        text: column of the lists of words, *optional*, defaults to "tokens".
        label: column of the lists of labels, *optional*, defaults to "<task>_tags", or "labels".
        task: "ner", "pos", "chunk" or another name that a data set uses.
        conll: index of the label column in a CoNLL file.
        conllu: name of the label column in a CoNLL-U file.
        names: label names, if the labels in the data are numbers from 0.
    """

    text: str | None = None
    label: str | None = None
    task: str = "ner"
    conll: int = -1
    conllu: str = "upos"
    names: Sequence[str] | None = None

    @property
    def labels(self) -> Column:
        """Column of the lists of labels."""
        names = (self.label,) if self.label else (f"{self.task}_tags", "labels")
        return Column(names, None, remedy="give --label_column_name or --task_name")


def load_sentences(
    path: PathLike, columns: TokenColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Read a file of labeled sentences into the columns `tokens` and `labels`, both lists of texts.

    Args:
        path: file in .json or .jsonl format (rows with a list of words and a list of labels), .conllu, .xml (CGED), or
            CoNLL columns.
        columns: columns of words and labels.
        require_labels: raise an error for a file without labels. If False, such a file gets empty lists as `labels`.
        skip_empty: leave out rows without words. If False, such rows are an error in CGED files, and are kept in .json
            and .jsonl files.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is invalid. The message names the place and a remedy.
    """
    path, columns = Path(path), columns or TokenColumns()
    if path.suffix == ".conllu":
        return load_conllu(path, columns.conllu, require_labels=require_labels)
    if path.suffix == ".xml":
        return load_cged(path, require_labels=require_labels, skip_empty=skip_empty)
    if path.suffix in COLUMN_SUFFIXES:
        return load_conll(path, columns.conll, require_labels=require_labels)
    if path.exists() and path.suffix not in ROW_SUFFIXES:
        suffixes = ", ".join((*ROW_SUFFIXES, ".conllu", ".xml", *COLUMN_SUFFIXES))
        raise ValueError(
            f"{path}: cannot read {path.suffix or 'a file without an extension'}; the extension must be one of"
            f" {suffixes}."
        )
    return _schema(columns, require_labels, skip_empty).load(path)


def format_labels(path: PathLike) -> tuple[str, ...]:
    """Return all labels of a file format; empty if the format allows any label."""
    return CGED_LABELS if Path(path).suffix == ".xml" else ()


def normalize_sentences(
    dataset: Dataset,
    name: str = "data set",
    columns: TokenColumns | None = None,
    *,
    require_labels: bool = True,
    skip_empty: bool = False,
) -> Dataset:
    """Convert the rows of a data set to the columns of `load_sentences`.

    Args:
        dataset: data set from the Hub or any other source.
        name: name of the data set, for error messages.
        columns: columns of words and labels.
        require_labels: raise an error for rows without labels.
        skip_empty: leave out rows without words.

    Raises:
        ValueError: a column is missing or a row is invalid. The message names the row and a remedy.
    """
    columns = columns or TokenColumns()
    names = class_names(dataset, columns)
    columns = columns if names is None else replace(columns, names=names)
    return _schema(columns, require_labels, skip_empty).normalize(dataset, name)


def class_names(dataset: Dataset, columns: TokenColumns) -> list[str] | None:
    """Return the label names of a data set's `ClassLabel`; None if there is no `ClassLabel`."""
    name = columns.labels.find(dataset.column_names)
    feature = None if name is None else getattr(dataset.features[name], "feature", None)
    return list(feature.names) if isinstance(feature, ClassLabel) else None


def load_label_names(path: PathLike, columns: TokenColumns) -> list[str]:
    """Read the names of numbered labels from a .json file: a list, or an object with a list for each column.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file has other content.
    """
    content = parse_json(read_text(Path(path)), str(path))
    if isinstance(content, dict):
        name = columns.labels.find(content)
        if name is None:
            raise ValueError(f"{path}: {columns.labels.missing(content)}")
        content = content[name]
    if not isinstance(content, list) or not content or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{path}: expected a list of names; found {describe_value(content)}.")
    if repeated := sorted({name for name in content if content.count(name) > 1}):
        raise ValueError(f"{path}: the name {repeated[0]!r} occurs twice: remove one of them.")
    return content


def sorted_labels(labels: set[str]) -> list[str]:
    """Sort labels for numbering: numbers by value, other labels by name."""
    return sorted(labels, key=int) if all(re.fullmatch(r"\d{1,18}", label) for label in labels) else sorted(labels)


def check_labels(sentences: Dataset, source: str, names: Sequence[str]) -> None:
    """Raise `ValueError` if a word has a label that is not in `names`."""
    known = set(names)
    for number, row in zip(row_numbers(sentences), sentences, strict=True):
        labels = row["labels"]
        if unknown := [place for place, label in enumerate(labels) if label not in known]:
            word = row["tokens"][unknown[0]]
            raise ValueError(
                f"{source}, sentence {number + 1}, word {unknown[0] + 1} ({shorten(word)}): the label"
                f" {shorten(labels[unknown[0]])} is not one of the model's {len(names)} ({shorten(', '.join(names))});"
                " correct it, or give all labels with --label_names_file."
            )


def _schema(columns: TokenColumns, require_labels: bool, skip_empty: bool) -> Schema:
    words = Column(columns.text or "tokens", list, may_be_empty=not skip_empty, remedy="give --text_column_name")
    labels = replace(columns.labels, required=require_labels)

    def convert(record: Record) -> Record:
        tokens, tags = words.read(record), labels.read(record)
        # -1 is a missing class in `datasets`
        if not require_labels and (tags is None or (isinstance(tags, list) and set(map(str, tags)) == {"-1"})):
            return {"tokens": tokens, "labels": []}
        name = labels.find(record)
        if not isinstance(tags, list):
            raise ValueError(f"the field {name!r} must be a list of labels; found {describe_value(tags)}.")
        if len(tokens) != len(tags):
            raise ValueError(f"{len(tokens)} words in '{words}', but {len(tags)} labels in {name!r}.")
        return {"tokens": tokens, "labels": [_label(tag, columns.names) for tag in tags]}

    return Schema("sentences", [words, labels], TOKEN_FEATURES, convert, ROW_SUFFIXES, skip_empty, _all_or_none)


def _label(tag: Any, names: Sequence[str] | None) -> str:
    if isinstance(tag, str) and tag.strip():
        return tag
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise ValueError(f"a label must be a text or a whole number; found {describe_value(tag)}.")
    if names is None:
        return str(tag)
    if not 0 <= tag < len(names):
        raise ValueError(f"the label {tag} has no name; there are names for 0 to {len(names) - 1}.")
    return names[tag]


def _all_or_none(sentences: Dataset, source: str) -> Dataset:
    """Raise `ValueError` if only some of the sentences have labels."""
    bare = [
        number
        for number, row in zip(row_numbers(sentences), sentences, strict=True)
        if row["tokens"] and not row["labels"]
    ]
    if bare and any(chain.from_iterable(sentences["labels"])):
        raise ValueError(
            f"{source}, sentence {bare[0] + 1}: has no labels, but other sentences have; label all of them, or none."
        )
    return sentences
