"""Readers for column files: one word with its labels per line, blank lines between sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from datasets import Dataset, Features, List, Value

from hf_localattn.data.readers.tables import PathLike, read_text, shorten

TOKEN_FEATURES = Features({"tokens": List(Value("string")), "labels": List(Value("string"))})
"""Words and labels of a sentence, lists of equal length; `labels` is empty if unknown."""

CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
CONLLU_WIDTH = 10
UNSPECIFIED = "_"
"""Value of an unspecified CoNLL-U column."""

Line = tuple[int, list[str]]
"""A line number and the columns of the line; no columns if it is blank."""


def load_conll(path: PathLike, label_column: int = -1, *, require_labels: bool = True) -> Dataset:
    """Read a column file (CoNLL-2003, FCE and similar) into `tokens` and `labels`, one row per sentence.

    The first column has the words. If the first line with words contains a tab, columns are separated by single tabs;
    otherwise by any number of spaces and tabs. `-DOCSTART-` lines are left out.

    Args:
        path: a UTF-8 file with any extension.
        label_column: index of the column with the labels, *optional*, defaults to -1, the last column.
        require_labels: raise an error if the file has words only. If False, the sentences get no labels.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not in this format. The message names the line and a remedy.

    Example:
        >>> from hf_localattn.data import load_conll
        >>> from hf_localattn.resources import FOLDER
        >>> load_conll(FOLDER / "samples" / "names.conll")[0]["labels"]
        ['B-PER', 'I-PER', 'O', 'O', 'O', 'B-LOC', 'O']
    """
    path = Path(path)
    width = 0
    tokens, labels = [], []
    for sentence in split_sentences(_conll_lines(path)):
        for number, columns in sentence:
            if not width:
                width = len(columns)
                _check_label_column(f"{path}, line {number}", columns, label_column, require_labels)
            _check_columns(f"{path}, line {number}", columns, width, label_column)
        tokens.append([columns[0] for _, columns in sentence])
        labels.append([columns[label_column] for _, columns in sentence] if width > 1 else [])
    return _as_dataset(path, tokens, labels)


def load_conllu(path: PathLike, column: str = "upos", *, require_labels: bool = True) -> Dataset:
    """Read a CoNLL-U file into `tokens` and `labels`, one row per sentence.

    Tokens are syntactic words. Comments, multiword ranges (`1-2`) and empty nodes (`1.1`) are left out.

    Args:
        path: a UTF-8 file with the ten columns of CoNLL-U.
        column: `"upos"` (universal part of speech) or `"xpos"` (language-specific tag), *optional*, defaults to
            `"upos"`.
        require_labels: raise an error if the column is `_` everywhere. If False, the file gets no labels.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not in this format. The message names the line and a remedy.
    """
    path = Path(path)
    if column not in CONLLU_COLUMNS:
        raise ValueError(f"the column of a CoNLL-U file must be {' or '.join(CONLLU_COLUMNS)}; got {column!r}.")
    sentences = list(split_sentences(_conllu_lines(path)))
    tokens = [[columns[1] for _, columns in sentence] for sentence in sentences]
    labels = [[columns[CONLLU_COLUMNS[column]] for _, columns in sentence] for sentence in sentences]
    if all(label == UNSPECIFIED for own in labels for label in own):
        if labels and require_labels:
            raise ValueError(f"{path}: has no labels: its column {column} is {UNSPECIFIED!r} everywhere.")
        labels = [[] for _ in labels]
    return _as_dataset(path, tokens, labels)


def _as_dataset(path: Path, tokens: list[list[str]], labels: list[list[str]]) -> Dataset:
    if not tokens:
        raise ValueError(f"{path}: holds no sentences; expected a word and its label on each line.")
    return Dataset.from_dict({"tokens": tokens, "labels": labels}, features=TOKEN_FEATURES)


def split_sentences(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each sentence; blank lines separate sentences."""
    for has_words, sentence in groupby(lines, key=lambda line: bool(line[1])):
        if has_words:
            yield list(sentence)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line without its line break, and its number, counted from 1."""
    # not `splitlines`, nor `split` and `strip` without arguments: words may contain U+0085, U+00A0 and the like
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        yield number, line.rstrip("\r")


def _conll_lines(path: Path) -> Iterator[Line]:
    tabs: bool | None = None
    for number, line in read_lines(path):
        text = line.strip(" \t")
        if not text:
            yield number, []
            continue
        if re.match(r"-DOCSTART-(?![^ \t])", text):
            continue
        if tabs is None:
            tabs = "\t" in line
        yield number, line.split("\t") if tabs else re.split("[ \t]+", text)


def _conllu_lines(path: Path) -> Iterator[Line]:
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        if not line.strip(" \t"):
            yield number, []
            continue
        columns = line.split("\t")
        if len(columns) != CONLLU_WIDTH:
            raise ValueError(
                f"{path}, line {number}: {len(columns)} columns, but CoNLL-U has {CONLLU_WIDTH}, separated by tabs;"
                " if the file has other columns, rename it to .conll."
            )
        if re.fullmatch(r"\d+", columns[0]):
            yield number, columns
        elif not re.fullmatch(r"\d+[-.]\d+", columns[0]):
            raise ValueError(
                f"{path}, line {number}: the first column must be a word's number, such as 1, 1-2 or 1.1; found"
                f" {shorten(columns[0])}."
            )


def _check_label_column(where: str, columns: list[str], label_column: int, require_labels: bool) -> None:
    if len(columns) == 1:
        if require_labels:
            raise ValueError(f"{where}: one column, so there are no labels; expected a word and its label a line.")
    elif not -len(columns) < label_column < len(columns) or label_column == 0:
        raise ValueError(
            f"{where}: there is no label column {label_column} in {len(columns)} columns: column 0 has the words;"
            f" choose 1 to {len(columns) - 1}, or -1 for the last one."
        )


def _check_columns(where: str, columns: list[str], width: int, label_column: int) -> None:
    if len(columns) != width:
        raise ValueError(
            f"{where}: {len(columns)} columns, but {width} in the first line; separate columns by tabs or"
            " spaces as there, and sentences by blank lines."
        )
    if not columns[0].strip(" "):
        raise ValueError(f"{where}: the word is empty.")
    if width > 1 and not columns[label_column].strip(" "):
        raise ValueError(f"{where}: the label of {shorten(columns[0])} is empty.")
