"""Token classification: sentences as lists of words with a label each, from rows, column files or CGED's XML."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import ClassLabel, Dataset, Features, List, Value
from tokenizers import Regex, normalizers
from tokenizers.normalizers import Prepend, Replace
from tokenizers.pre_tokenizers import ByteLevel
from transformers import BatchEncoding, PreTrainedTokenizerBase

from hf_localattn.data import xml
from hf_localattn.data.rows import (
    PLACE,
    SKIP,
    Column,
    Data,
    EmptyText,
    Record,
    Source,
    check_all_or_none,
    check_is_fast,
    convert_rows,
    describe_value,
    make_dataset,
    open_source,
    read_text,
    shorten,
)
from hf_localattn.models.word_beginnings import keeps_word_beginnings
from hf_localattn.parsing import parse_json

_WORDS = List(Value("string"))
TOKEN_FEATURES = Features({"tokens": _WORDS, "labels": _WORDS, PLACE: Value("string")})
"""Words and labels of a sentence, lists of equal length; `labels` is empty if unknown. And its place in the data."""

COLUMN_SUFFIXES = (".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2")
SUFFIXES = (".json", ".jsonl", ".conllu", ".xml", *COLUMN_SUFFIXES)

CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
UNSPECIFIED = "_"
"""Value of an unspecified CoNLL-U column."""

CGED_TYPES = ("R", "M", "S", "W")
"""Types of errors: redundant word, missing word, wrong word (selection), wrong word order."""

CGED_LABELS = ("O", *(f"{letter}-{kind}" for kind in CGED_TYPES for letter in "BI"))

# XML forbids these characters, but the corpus of 2016 has a few. Its offsets count them: replace, do not remove.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

IGNORED = -100
"""Label of tokens that the loss ignores."""

Line = tuple[int, list[str]]
"""A line number and the columns of the line; no columns if it is blank."""


@dataclass(frozen=True)
class TokenColumns:
    """Columns of words and labels.

    Args:
        text: column of the lists of words, *optional*, defaults to "tokens".
        label: column of the lists of labels, *optional*, defaults to "<task>_tags", or "labels".
        task: "ner", "pos", "chunk" or another name that a data set uses.
        conll: index of the label column in a CoNLL file.
        conllu: label column of a CoNLL-U file: "upos" (universal part of speech) or "xpos" (of the language).
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
    data: Data, columns: TokenColumns | None = None, *, require_labels: bool = True, skip_empty: bool = False
) -> Dataset:
    """Load labeled sentences into the columns `tokens` and `labels`, both lists of texts, and `place`.

    The extension of a file determines its format:

    * `.json` and `.jsonl`: rows with a list of words and a list of labels, as in data sets.
    * `.conllu`: the syntactic words of CoNLL-U, with one of its two parts of speech.
    * `.xml`: CGED (shared tasks of 2016 and later; Lee et al. 2016), one row for the characters of each text, with
      labels in IOB2. If errors overlap, the first one in the file keeps its characters. Line breaks are dropped. A
      missing word at the end of a text is marked on the last character.
    * `.conll`, `.txt`, `.tsv`, `.bio`, `.iob`, `.iob2`: a word and its labels on each line (CoNLL-2003, FCE). If the
      first line contains a tab, columns are separated by single tabs; otherwise by any number of spaces and tabs.

    Args:
        data: file or data set. The names of a data set's `ClassLabel` are its labels.
        columns: columns of words and labels.
        require_labels: raise an error for data without labels. If False, they get empty lists as `labels`.
        skip_empty: leave out rows without words. If False, such rows are an error in CGED files, and are kept in .json
            and .jsonl files.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the data are invalid. The message names the place and a remedy.
    """
    columns = columns or TokenColumns()
    if columns.conllu not in CONLLU_COLUMNS:
        raise ValueError(
            f"the column of a CoNLL-U file must be {' or '.join(CONLLU_COLUMNS)}; got {columns.conllu!r}."
        )
    if not isinstance(data, str | os.PathLike):
        return _load_rows(open_source(data, "sentences"), columns, require_labels, skip_empty)
    path = Path(data)
    if path.suffix == ".xml":
        return _load_cged(path, require_labels, skip_empty)
    if path.suffix == ".conllu":
        return _load_columns(path, _conllu_lines(path, CONLLU_COLUMNS[columns.conllu]), require_labels)
    if path.suffix in COLUMN_SUFFIXES:
        return _load_columns(path, _conll_lines(path, columns.conll, require_labels), require_labels)
    return _load_rows(open_source(path, "sentences", SUFFIXES), columns, require_labels, skip_empty)


def format_labels(path: str) -> tuple[str, ...]:
    """Return all labels of a file format; none if it allows any label."""
    return CGED_LABELS if Path(path).suffix == ".xml" else ()


def class_names(dataset: Dataset, columns: TokenColumns) -> list[str] | None:
    """Return the label names of a data set's `ClassLabel`; None if there is no `ClassLabel`."""
    name = columns.labels.find(dataset.column_names)
    feature = None if name is None else getattr(dataset.features[name], "feature", None)
    return list(feature.names) if isinstance(feature, ClassLabel) else None


def load_label_names(path: str, columns: TokenColumns) -> list[str]:
    """Read the names of numbered labels from a .json file: a list, or an object with a list for each column."""
    content = parse_json(read_text(path), str(path))
    if isinstance(content, dict):
        try:
            content = columns.labels.read(content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    if not isinstance(content, list) or not content or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{path}: expected a list of names; found {describe_value(content)}.")
    if repeated := sorted({name for name in content if content.count(name) > 1}):
        raise ValueError(f"{path}: the name {repeated[0]!r} occurs twice: remove one of them.")
    return content


def check_labels(sentences: Dataset, names: Sequence[str]) -> None:
    """Raise `ValueError` if a word has a label that is not in `names`."""
    known = set(names)
    for where, tokens, labels in zip(*(sentences[name][:] for name in (PLACE, "tokens", "labels")), strict=True):
        for number, label in enumerate(labels):
            if label not in known:
                raise ValueError(
                    f"{where}, word {number + 1} ({shorten(tokens[number])}): the label {shorten(label)} is none of"
                    f" {shorten(', '.join(names))}; give all with --label_names_file."
                )


def _load_rows(source: Source, columns: TokenColumns, require_labels: bool, skip_empty: bool) -> Dataset:
    names = class_names(source.rows, columns) if isinstance(source.rows, Dataset) else None
    columns = replace(columns, names=names or columns.names)
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

    sentences = convert_rows(source, [words, labels], TOKEN_FEATURES, convert, skip_empty=skip_empty)
    check_all_or_none(source, sentences, "labels")
    return sentences


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


def _load_columns(path: Path, lines: Iterable[Line], require_labels: bool) -> Dataset:
    rows: list[Record] = []
    for sentence in split_sentences(lines):
        labels = [label for _, columns in sentence for label in columns[1:]]
        where = f"{path}, sentence in line {sentence[0][0]}"
        rows.append({"tokens": [columns[0] for _, columns in sentence], "labels": labels, PLACE: where})
    if not rows:
        raise ValueError(f"{path}: holds no sentences; expected a word and its label on each line.")
    if path.suffix == ".conllu" and all(label == UNSPECIFIED for row in rows for label in row["labels"]):
        if require_labels:
            raise ValueError(f"{path}: has no labels: their column is {UNSPECIFIED!r} everywhere.")
        rows = [{**row, "labels": []} for row in rows]
    return make_dataset(rows, TOKEN_FEATURES)


def split_sentences(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each sentence; blank lines separate sentences."""
    for has_words, sentence in groupby(lines, key=lambda line: bool(line[1])):
        if has_words:
            yield list(sentence)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of each line, counted from 1, and the line without its line break."""
    # not `splitlines`, nor `split` and `strip` without arguments: words may contain U+0085, U+00A0 and the like
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        yield number, line.rstrip("\r")


def _conll_lines(path: Path, label_column: int, require_labels: bool) -> Iterator[Line]:
    width, tabs = 0, False
    for number, line in read_lines(path):
        text = line.strip(" \t")
        if not text:
            yield number, []
        if not text or text.partition(" ")[0].partition("\t")[0] == "-DOCSTART-":
            continue
        tabs = tabs if width else "\t" in line
        columns = line.split("\t") if tabs else re.split("[ \t]+", text)
        found = len(columns)
        own = columns if found == 1 and not require_labels else [columns[0], *columns[label_column:][:1]]
        if width and found != width:
            problem = f"{found} columns, but {width} in the first line; separate sentences by blank lines."
        elif own is not columns and (label_column == 0 or not -found < label_column < found):
            problem = f"there is no label column {label_column} in {found} columns; column 0 has the words."
        elif not all(cell.strip(" ") for cell in own):
            problem = "the word or its label is empty."
        else:
            width = found
            yield number, own
            continue
        raise ValueError(f"{path}, line {number}: {problem}")


def _conllu_lines(path: Path, label_column: int) -> Iterator[Line]:
    for number, line in read_lines(path):
        columns = line.split("\t")
        if not line.strip(" \t"):
            yield number, []
        elif line.startswith("#"):
            continue
        elif len(columns) != 10 or not re.fullmatch(r"\d+([-.]\d+)?", columns[0]):
            raise ValueError(
                f"{path}, line {number}: expected 10 columns, separated by tabs, the first one a number such as 1 or"
                f" 1-2; found {shorten(line)}. If the file has other columns, rename it to .conll."
            )
        elif columns[0].isdecimal():  # ranges (1-2) and empty nodes (1.1) are left out
            yield number, [columns[1], columns[label_column]]


def _load_cged(path: Path, require_labels: bool, skip_empty: bool) -> Dataset:
    root = xml.parse_xml(_CONTROL_CHARACTER.sub("\ufffd", read_text(path)), path, has_root=False)
    records = []
    for document in root.iter("DOC"):
        own = document.findall("TEXT")
        record = {"texts": own, "errors": list(document.iter("ERROR")), "id": own[0].get("id") if own else None}
        records.append((f"line {document.sourceline}", record))
    if not records:
        raise ValueError(f"{path}: holds no DOC; expected CGED's DOC with a TEXT and ERRORs, as since 2016.")
    labeled = any(record["errors"] for _, record in records)
    convert = partial(_convert_cged, labeled=labeled)
    rows = convert_rows(Source(str(path), records), (), TOKEN_FEATURES, convert, skip_empty=skip_empty)
    if require_labels and not labeled:
        raise ValueError(f"{path}: has no labels: there is not one ERROR in {len(rows)} texts.")
    return rows


def _convert_cged(record: Record, labeled: bool) -> Record:
    if len(record["texts"]) != 1:
        raise ValueError(f"has {len(record['texts'])} TEXT elements; expected one, as in CGED since 2016.")
    lines = "".join(record["texts"][0].itertext()).split("\n")
    if len(lines) > 1 and lines[-1] and not lines[-1].strip(" \t"):  # the closing tag is indented, and so are lines
        lines = [line.strip(" \t") for line in lines]
    text = "".join(lines)
    if not text.strip():
        raise EmptyText(f"its TEXT is empty; {SKIP}")
    labels = ["O"] * len(text)
    for error in record["errors"]:
        kind, first, last = _read_error(error, len(text))
        previous = None
        for place in (place for place in range(first - 1, last) if labels[place] == "O"):
            labels[place] = f"I-{kind}" if previous == place - 1 else f"B-{kind}"
            previous = place
    return {"tokens": list(text), "labels": labels if labeled else []}


def _read_error(error: xml.Element, length: int) -> tuple[str, int, int]:
    """Return the type of an error, and the positions of its first and last character, counted from 1."""
    kind, first, last = (error.get(name, "") for name in ("type", "start_off", "end_off"))
    if kind not in CGED_TYPES or not all(re.fullmatch("[0-9]{1,9}", place) for place in (first, last)):
        found = shorten(dict(error.attrib))
        raise ValueError(f"an ERROR needs the type R, M, S or W, a start_off and an end_off; found {found}.")
    first, last = int(first), int(last)
    if kind == "M" and first == last == length + 1:
        first = last = length
    if not 1 <= first <= last <= length:
        raise ValueError(
            f"an ERROR from {first} to {last} is not in its TEXT of {length} characters; count from 1, and"
            " include the last character of the error."
        )
    return kind, first, last


def prepare_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Set up a tokenizer for lists of words: each word gets the pieces that it has in a text.

    Many tokenizers mark the beginning of a word by the space before it (`Ġbaker`, `▁baker`). If words of a list lack
    this mark, the tokenizer is changed to put a space before each of them and before texts, and is saved like that.

    Raises:
        ValueError: the tokenizer is slow, which cannot map tokens to words; or it loses the marks, now or as soon as
            it is saved and loaded.
    """
    check_is_fast(tokenizer, "cannot map tokens to words")
    if keeps_word_beginnings(tokenizer):
        return
    _put_space_before_words(tokenizer)
    name = type(tokenizer).__name__
    if not keeps_word_beginnings(tokenizer):
        raise ValueError(f"{name} loses the mark of a word's beginning in lists of words: choose another tokenizer.")
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        reloaded = type(tokenizer).from_pretrained(folder)
    if not keeps_word_beginnings(reloaded):
        raise ValueError(
            f"{name} loses the mark of a word's beginning in lists of words as soon as it is saved and loaded: load it"
            " with PreTrainedTokenizerFast, save it to a folder and give this folder (scripts: --tokenizer_name)."
        )


def _put_space_before_words(tokenizer: PreTrainedTokenizerBase) -> None:
    backend = tokenizer.backend_tokenizer
    if isinstance(backend.pre_tokenizer, ByteLevel):
        backend.pre_tokenizer.add_prefix_space = True
        tokenizer.add_prefix_space = True
        return
    # In a sequence of pre-tokenizers (Llama 3), `add_prefix_space` would put a space before each part of a word.
    steps = [Prepend(" "), Replace(Regex(r"\A  "), " ")]  # a space, unless there is one
    if backend.normalizer is not None:
        steps.append(backend.normalizer)
    backend.normalizer = normalizers.Sequence(steps)


def word_features(
    examples: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    label_ids: dict[str, int],
    label_all_tokens: bool = False,
) -> BatchEncoding:
    """Tokenize a batch of sentences, with `labels` on the first token of each word and -100 on the others.

    If a sentence has no labels, the first tokens of its words get 0, to mark their positions. `visible_word_ids` has
    the indices of the words with tokens. Words of control characters may have no tokens, and words after `max_length`
    tokens are cut off. With `label_all_tokens`, all tokens of a word have its label; `B-` becomes `I-`.
    """
    inside = {i: label_ids.get(f"I-{name[2:]}", i) if name[:2] == "B-" else i for name, i in label_ids.items()}
    encoded = tokenizer(examples["tokens"], is_split_into_words=True, truncation=True, max_length=max_length)
    encoded["labels"], encoded["visible_word_ids"] = [], []
    for row, names in enumerate(examples["labels"]):
        labels: list[int] = []
        seen: list[int] = []
        for word in encoded.word_ids(row):
            if word is None:
                labels.append(IGNORED)
            elif word in seen[-1:]:
                labels.append(inside[labels[-1]] if label_all_tokens else IGNORED)
            else:
                labels.append(label_ids[names[word]] if names else 0)
                seen.append(word)
        encoded["labels"].append(labels)
        encoded["visible_word_ids"].append(seen)
    return encoded
