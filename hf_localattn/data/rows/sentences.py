"""Sentences with a label for each word: files and Hub data sets, checked before anything is trained on them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset

from hf_localattn.data.readers.cged import CGED_LABELS, load_cged
from hf_localattn.data.readers.column_files import TOKEN_FEATURES, load_conll, load_conllu
from hf_localattn.data.readers.tables import Record, read_rows, read_text, shape_of, shorten
from hf_localattn.parsing import parse_json

ROW_SUFFIXES = (".json", ".jsonl")
COLUMN_SUFFIXES = (".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2")


@dataclass(frozen=True)
class TokenColumns:
    """Where the words of a data set are, and their labels.

    Args:
        text: name of the column with the lists of words; by default "tokens".
        label: likewise of their labels; by default "<task>_tags", or "labels".
        task: ner, pos, chunk or another name that a data set uses.
        conll: the label's column in a file of columns.
        conllu: likewise in a CoNLL-U file.
        names: what the numbers are called, where labels are numbers from 0.
    """

    text: str | None = None
    label: str | None = None
    task: str = "ner"
    conll: int = -1
    conllu: str = "upos"
    names: Sequence[str] | None = None

    @property
    def label_candidates(self) -> list[str]:
        """Columns that may have the labels; the first one that is there has them."""
        return [self.label] if self.label else [f"{self.task}_tags", "labels"]

    def text_column(self, columns: Sequence[str], where: str) -> str:
        """Return the name of the column of words among those there are, or raise ValueError."""
        return _find([self.text or "tokens"], columns, where, "--text_column_name")

    def label_column(self, columns: Sequence[str], where: str) -> str:
        """Return the name of the column of labels, likewise."""
        return _find(self.label_candidates, columns, where, "--label_column_name or --task_name")


def load_sentences(
    path: str | os.PathLike[str], columns: TokenColumns | None = None, *, require_labels: bool = True
) -> Dataset:
    """Read a file of labelled sentences into `tokens` and `labels`, both lists of texts, whatever its layout.

    Args:
        path: .json or .jsonl (rows with a list of words and one of labels), .conllu, .xml (CGED), or columns.
        columns: where words and labels are.
        require_labels: whether a file without labels is an error; if not, its sentences have an empty list of them.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be used; names the place and the remedy.
    """
    path, columns = Path(path), columns or TokenColumns()
    if path.suffix == ".conllu":
        return load_conllu(path, columns.conllu, require_labels=require_labels)
    if path.suffix == ".xml":
        return load_cged(path, require_labels=require_labels)
    if path.suffix in COLUMN_SUFFIXES:
        return load_conll(path, columns.conll, require_labels=require_labels)
    if path.exists() and path.suffix not in ROW_SUFFIXES:
        suffixes = ", ".join((*ROW_SUFFIXES, ".conllu", ".xml", *COLUMN_SUFFIXES))
        raise ValueError(f"{path}: cannot read {path.suffix or 'a file without an extension'}; choose of {suffixes}.")
    records = read_rows(path, suffixes=ROW_SUFFIXES, what="sentences")
    rows = []
    for where, record in records:
        if not isinstance(record, dict):
            raise ValueError(f"{path}, {where}: expected an object with words and labels; found {shape_of(record)}.")
        rows.append(_checked(record, f"{path}, {where}", columns, require_labels))
    if not rows:
        raise ValueError(f"{path}: holds no sentences.")
    return _all_or_none(Dataset.from_list(rows, features=TOKEN_FEATURES), str(path))


def format_labels(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the labels that files of a kind may have, whether this one has them or not; none if any are possible."""
    return CGED_LABELS if Path(path).suffix == ".xml" else ()


def normalize_sentences(
    dataset: Dataset, name: str = "data set", columns: TokenColumns | None = None, *, require_labels: bool = True
) -> Dataset:
    """Make the checks of `load_sentences` on a data set from elsewhere, and return it in the same form.

    Raises:
        ValueError: a column is missing or a row is not usable; names the row and the remedy.
    """
    columns = columns or TokenColumns()
    if len(dataset) == 0:
        raise ValueError(f"{name}: holds no sentences.")
    names = class_names(dataset, columns)
    own = columns if names is None else replace(columns, names=names)

    def checked_row(record: Record, index: int) -> Record:
        return _checked(dict(record), f"{name}, row {index + 1}", own, require_labels)

    checked = dataset.map(
        checked_row,
        with_indices=True,
        remove_columns=dataset.column_names,
        features=TOKEN_FEATURES,
        desc=f"Checking {name}",
    )
    return _all_or_none(checked, name)


def class_names(dataset: Dataset, columns: TokenColumns) -> list[str] | None:
    """Return what a data set says that its numbers are called, if it does."""
    present = [name for name in columns.label_candidates if name in dataset.column_names]
    feature = getattr(dataset.features[present[0]], "feature", None) if present else None
    return list(feature.names) if isinstance(feature, ClassLabel) else None


def load_label_names(path: str | os.PathLike[str], columns: TokenColumns) -> list[str]:
    """Read the names of labels that are numbers from 0: a list in a .json file, or such lists by column.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds something else.
    """
    content = parse_json(read_text(Path(path)), str(path))
    if isinstance(content, dict):
        content = content[columns.label_column(list(content), str(path))]
    if not isinstance(content, list) or not content or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{path}: expected a list of names; found {shape_of(content)}.")
    if repeated := sorted({name for name in content if content.count(name) > 1}):
        raise ValueError(f"{path}: the name {repeated[0]!r} is there twice.")
    return content


def sorted_labels(labels: set[str]) -> list[str]:
    """Return labels in the order in which they are numbered where nothing else says one."""
    return sorted(labels, key=int) if all(re.fullmatch(r"\d{1,18}", label) for label in labels) else sorted(labels)


def check_labels(sentences: Dataset, source: str, names: Sequence[str]) -> None:
    """Raise `ValueError` if a word has a label that is not among the names."""
    known = set(names)
    for number, labels in enumerate(sentences["labels"]):
        if unknown := [place for place, label in enumerate(labels) if label not in known]:
            word = sentences[number]["tokens"][unknown[0]]
            raise ValueError(
                f"{source}, sentence {number + 1}, word {unknown[0] + 1} ({shorten(word)}): the label"
                f" {shorten(labels[unknown[0]])} is not one of the model's {len(names)} ({shorten(', '.join(names))});"
                " correct it, or give all labels by --label_names_file."
            )


def _find(candidates: Sequence[str], columns: Sequence[str], where: str, option: str) -> str:
    for name in candidates:
        if name in columns:
            return name
    raise ValueError(f"{where}: has no {' or '.join(candidates)} (it has {', '.join(columns)}); give {option}.")


def _checked(record: Record, where: str, columns: TokenColumns, require_labels: bool) -> Record:
    """A row with exactly the columns tokens and labels; the latter empty if there are none and need not be."""
    text = columns.text_column(list(record), where)
    words = record[text]
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{where}: {text!r} must be a list of words; found {shape_of(words)}.")
    try:
        label = columns.label_column(list(record), where)
    except ValueError:
        if require_labels:
            raise
        return {"tokens": words, "labels": []}
    tags = record[label]
    # -1 is what `datasets` has for a class that is not given
    if not require_labels and (tags is None or (isinstance(tags, list) and set(map(str, tags)) == {"-1"})):
        return {"tokens": words, "labels": []}
    if not isinstance(tags, list):
        raise ValueError(f"{where}: {label!r} must be a list of labels; found {shape_of(tags)}.")
    if len(words) != len(tags):
        raise ValueError(f"{where}: {len(words)} words in {text!r}, but {len(tags)} labels in {label!r}.")
    return {"tokens": words, "labels": [_label(tag, where, columns.names) for tag in tags]}


def _label(tag: Any, where: str, names: Sequence[str] | None) -> str:
    if isinstance(tag, str) and tag.strip():
        return tag
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise ValueError(f"{where}: a label must be a text or a whole number; found {shape_of(tag)}.")
    if names is None:
        return str(tag)
    if not 0 <= tag < len(names):
        raise ValueError(f"{where}: the label {tag} has no name; there are names for 0 to {len(names) - 1}.")
    return names[tag]


def _all_or_none(sentences: Dataset, source: str) -> Dataset:
    """The sentences, if either all have labels, or none has."""
    bare = [number for number, row in enumerate(sentences, start=1) if row["tokens"] and not row["labels"]]
    if bare and any(chain.from_iterable(sentences["labels"])):
        raise ValueError(f"{source}, sentence {bare[0]}: has no labels, but others have; label all, or none.")
    return sentences
