"""Column files: a word and its label on each line, and blank lines between sentences (CoNLL, FCE, CoNLL-U)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from hf_localattn.data.rows import read_text, shorten

Line = tuple[int, list[str]]
"""A line number, and the word of the line with its label if there is one. Lines between sentences have no columns."""

CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
UNSPECIFIED = "_"
"""Value of an unspecified CoNLL-U column."""

DOCUMENT_START = "-DOCSTART-"


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, counted from 1, and the line without its line break."""
    # not `splitlines`, nor `split` and `strip` without arguments: words may contain U+0085, U+00A0 and the like
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        yield number, line.rstrip("\r")


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


def read_conll(path: Path, label_column: int, require_labels: bool) -> list[Line]:
    """Read the words and labels of a file with a word and any number of other columns on each line.

    If the first word's line contains a tab, columns are separated by single tabs; otherwise by any number of spaces
    and tabs. Blank lines and `-DOCSTART-` lines separate sentences.

    A line that begins with `#` is a comment if it is above the first word of a sentence and has another number of
    columns than words have. It is a word if it has their columns and the label of another word.

    Args:
        path: the file.
        label_column: index of the column of labels.
        require_labels: raise an error if there is only one column. If False, it is the column of words.

    Raises:
        ValueError: the file is invalid, or a line may be a comment or a word. The message names the line.
    """
    lines = list(read_lines(path))
    layout = _find_layout(path, lines)
    has_labels = require_labels or layout.width > 1
    if has_labels and (label_column == 0 or not -layout.width < label_column < layout.width):
        raise ValueError(
            f"{path}, line {layout.line}: there is no label column {label_column} in {layout.width} columns;"
            " column 0 has the words."
        )
    read_cells = _label_reader(path, label_column) if has_labels else _read_word
    rows: list[Line] = []
    doubtful: list[Line] = []
    labels = set[str]()
    for number, line in lines:
        if _is_between_sentences(line):
            rows.append((number, []))
            continue
        cells = _split(line, layout.tabs)
        begins_with_hash = cells[0].startswith("#")
        if len(cells) != layout.width:
            is_above_sentence = not rows or not rows[-1][1]
            if begins_with_hash and is_above_sentence:
                continue
            raise ValueError(_describe_width(path, number, len(cells), layout))
        columns = read_cells(number, cells)
        rows.append((number, columns))
        if begins_with_hash:
            doubtful.append((number, columns))
        else:
            labels.update(columns[1:])
    for number, columns in doubtful:
        if not labels.issuperset(columns[1:]):
            raise ValueError(
                f"{path}, line {number}: may be a comment, or a word with a label that no other word has"
                f" ({shorten(columns[1])}); remove the comment, or save the sentences as .jsonl."
            )
    return rows


def _is_between_sentences(line: str) -> bool:
    text = line.strip(" \t")
    return not text or (text.startswith(DOCUMENT_START) and text.split()[0] == DOCUMENT_START)


def _find_layout(path: Path, lines: Iterable[tuple[int, str]]) -> _Layout:
    for number, line in lines:
        if not _is_between_sentences(line) and not line.lstrip(" ").startswith("#"):
            tabs = "\t" in line
            width = len(_split(line, tabs))
            return _Layout(number, tabs, width)
    raise ValueError(f"{path}: holds no sentences; expected a word and its label on each line, not only after a #.")


def _split(line: str, tabs: bool) -> list[str]:
    """Return the cells of a line. Between tabs they may contain blanks, but do not begin or end with one."""
    if tabs:
        return [cell.strip(" ") for cell in line.split("\t")]
    return re.split("[ \t]+", line.strip(" \t"))


def _read_word(number: int, cells: list[str]) -> list[str]:
    return cells


def _label_reader(path: Path, label_column: int) -> Callable[[int, list[str]], list[str]]:
    """Return a function from the number and the cells of a line to its word and label."""

    def read_word_and_label(number: int, cells: list[str]) -> list[str]:
        word = cells[0]
        label = cells[label_column].strip()
        if not word or not label:
            empty = "label" if word else "word"
            raise ValueError(
                f"{path}, line {number}: the {empty} is empty; fill it in, and remove tabs at the end of lines."
            )
        return [word, label]

    return read_word_and_label


def _describe_width(path: Path, number: int, width: int, layout: _Layout) -> str:
    return (
        f"{path}, line {number}: {width} columns, but {layout.width} in line {layout.line}; separate sentences"
        " by blank lines, and write comments only above the first word of a sentence."
    )


def read_conllu(path: Path, label_column: int) -> Iterator[Line]:
    """Yield the words of a CoNLL-U file and their labels, without ranges (1-2) and empty nodes (1.1)."""
    last_id = 0  # of the sentence
    for number, line in read_lines(path):
        where = f"{path}, line {number}"
        if not line.strip(" \t"):
            last_id = 0
            yield number, []
            continue
        if line.startswith("#"):
            if last_id:
                raise ValueError(f"{where}: a comment after a word; separate sentences by blank lines.")
            continue
        columns = line.split("\t")
        if len(columns) != 10 or not re.fullmatch(r"\d+([-.]\d+)?", columns[0]):
            raise ValueError(
                f"{where}: expected 10 columns, separated by tabs, the first one a number such as 1 or 1-2; found"
                f" {shorten(line)}. If the file has other columns, rename it to .conll."
            )
        if not columns[0].isdecimal():
            continue
        word_id = int(columns[0])
        if word_id <= last_id:
            raise ValueError(f"{where}: word {word_id} after word {last_id}; separate sentences by blank lines.")
        last_id = word_id
        word = columns[1].strip(" ")
        label = columns[label_column].strip()
        if not word or not label:
            raise ValueError(f"{where}: the word or its label is empty; write {UNSPECIFIED} for an unknown label.")
        yield number, [word, label]
