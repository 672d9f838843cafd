"""Column files: a word and its label on each line, and blank lines between sentences (CoNLL, FCE, CoNLL-U)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from hf_localattn.data.rows import read_text
from hf_localattn.errors import shorten

Line = tuple[int, list[str]]
"""A line number, and the word of the line with its label if there is one. Lines between sentences have no columns."""

CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
UNSPECIFIED = "_"
"""Value of an unspecified CoNLL-U column."""

DOCUMENT_START = "-DOCSTART-"


_split_at_blanks = re.compile("[ \t]+").split


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, counted from 1, and the line without its line break.

    Raises:
        ValueError: A carriage return is inside a line.
    """
    # not `splitlines`, nor `split` and `strip` without arguments: words may contain U+0085, U+00A0 and the like
    for line_number, ended in enumerate(read_text(path).split("\n"), start=1):
        line = ended.rstrip("\r")
        if "\r" in line:
            raise ValueError(
                f"{path}, line {line_number}: has a carriage return inside; end lines by \\n or \\r\\n alone."
            )
        yield line_number, line


def group_lines(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each sentence; lines without columns separate sentences."""
    for has_words, sentence in groupby(lines, key=lambda line: bool(line[1])):
        if has_words:
            yield list(sentence)


class _Layout(NamedTuple):
    """Columns of a file, as in the line of its first word."""

    line: int
    tabs: bool
    width: int


def read_conll(path: Path, label_column: int, require_labels: bool) -> Iterator[Line]:
    """Yield the words and labels of a file with a word and any number of other columns on each line.

    If the first word's line contains a tab, columns are separated by single tabs; otherwise by any number of spaces
    and tabs. Blank lines and `-DOCSTART-` lines separate sentences.

    A line that begins with `#` is a comment if it is above the first word of a sentence and has another number of
    columns than words have. It is a word if it has their columns and the label of another word.

    Args:
        path: The file.
        label_column: Index of the column of labels.
        require_labels: Raise an error if there is only one column. If False, it is the column of words.

    Raises:
        ValueError: The file is invalid, or a line may be a comment or a word. The message names the line.
    """
    layout = _find_layout(path)
    has_labels = require_labels or layout.width > 1
    if has_labels and (label_column == 0 or not -layout.width < label_column < layout.width):
        raise ValueError(
            f"{path}, line {layout.line}: there is no label column {label_column} in {layout.width} columns;"
            " column 0 has the words."
        )
    labels = set[str]()
    doubtful: list[tuple[int, str]] = []  # lines that are words if another word has their label
    is_above_sentence = True
    for line_number, line in read_lines(path):
        text = line.strip(" \t")
        if _is_between_sentences(text):
            is_above_sentence = True
            yield line_number, []
            continue
        cells = line.split("\t") if layout.tabs else _split_at_blanks(text)
        begins_with_hash = text.startswith("#")
        if begins_with_hash and is_above_sentence and len(cells) != layout.width:
            continue
        if len(cells) != layout.width:
            raise ValueError(
                f"{path}, line {line_number}: {len(cells)} columns, but {layout.width} in line {layout.line}; separate"
                " sentences by blank lines, and write comments only above the first word of a sentence."
            )
        is_above_sentence = False
        word = cells[0].strip(" ")
        if not has_labels:
            yield line_number, [word]
            continue
        label = cells[label_column].strip()
        if not word or not label:
            empty = "label" if word else "word"
            raise ValueError(
                f"{path}, line {line_number}: the {empty} is empty; fill it in, and remove tabs at the end of lines."
            )
        if begins_with_hash:
            doubtful.append((line_number, label))
        else:
            labels.add(label)
        yield line_number, [word, label]
    for line_number, label in doubtful:
        if label not in labels:
            raise ValueError(
                f"{path}, line {line_number}: may be a comment, or a word with a label that no other word has"
                f" ({shorten(label)}); remove the comment, or save the sentences as .jsonl."
            )


def _find_layout(path: Path) -> _Layout:
    for line_number, line in read_lines(path):
        text = line.strip(" \t")
        if _is_between_sentences(text) or text.startswith("#"):
            continue
        tabs = "\t" in line
        cells = line.split("\t") if tabs else _split_at_blanks(text)
        return _Layout(line_number, tabs, len(cells))
    raise ValueError(f"{path}: holds no sentences; expected a word and its label on each line, not only after a #.")


def _is_between_sentences(text: str) -> bool:
    return not text or (text.startswith(DOCUMENT_START) and text.split()[0] == DOCUMENT_START)


def read_conllu(path: Path, label_column: int) -> Iterator[Line]:
    """Yield the words of a CoNLL-U file and their labels, without ranges (1-2) and empty nodes (1.1)."""
    last_id = 0  # of the sentence
    for line_number, line in read_lines(path):
        if not line.strip(" \t"):
            last_id = 0
            yield line_number, []
            continue
        if line.startswith("#"):
            if last_id:
                raise ValueError(
                    f"{path}, line {line_number}: a comment after a word; separate sentences by blank lines."
                )
            continue
        columns = line.split("\t")
        if len(columns) != 10 or not _is_conllu_id(columns[0]):
            raise ValueError(
                f"{path}, line {line_number}: expected 10 columns, separated by tabs, the first one a number"
                f" such as 1 or 1-2; found {shorten(line)}. If the file has other columns, rename it to .conll."
            )
        if not columns[0].isdecimal():
            continue
        word_id = int(columns[0])
        if word_id <= last_id:
            raise ValueError(
                f"{path}, line {line_number}: word {word_id} after word {last_id}; separate sentences by blank lines."
            )
        last_id = word_id
        word = columns[1].strip(" ")
        label = columns[label_column].strip()
        if not word or not label:
            raise ValueError(
                f"{path}, line {line_number}: the word or its label is empty; write {UNSPECIFIED} if it is unknown."
            )
        yield line_number, [word, label]


def _is_conllu_id(text: str) -> bool:
    return text.isdecimal() or re.fullmatch(r"\d+[-.]\d+", text) is not None
