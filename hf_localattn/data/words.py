"""Token classification: sentences as lists of words with a label each, from rows, column files or CGED's XML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import ClassLabel, Dataset, Features, List, Value
from tokenizers import Regex, normalizers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import BatchEncoding, PreTrainedTokenizerBase

from hf_localattn.data.cged import CGED_LABELS, load_cged
from hf_localattn.data.class_names import look_of
from hf_localattn.data.column_files import (
    CONLLU_COLUMNS,
    UNSPECIFIED,
    Line,
    group_lines,
    read_conll,
    read_conllu,
)
from hf_localattn.data.rows import (
    PLACE,
    Column,
    Data,
    Record,
    Source,
    check_all_or_none,
    check_is_fast,
    convert_rows,
    describe_value,
    make_dataset,
    open_source,
    read_text,
)
from hf_localattn.errors import join_names, shorten
from hf_localattn.models.word_beginnings import keeps_word_beginnings
from hf_localattn.parsing import parse_json
from hf_localattn.settings.columns import TokenColumns

_WORDS = List(Value("string"))
TOKEN_FEATURES = Features({"tokens": _WORDS, "labels": _WORDS, PLACE: Value("string")})
"""Words and labels of a sentence, lists of equal length; `labels` is empty if unknown. And its place in the data."""

COLUMN_SUFFIXES = (".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2")
SUFFIXES = (".json", ".jsonl", ".conllu", ".xml", *COLUMN_SUFFIXES)

MISSING = -1
"""Index of a missing class in `datasets`."""

IGNORED = -100
"""Label of tokens that the loss ignores."""


def label_column_of(columns: TokenColumns) -> Column:
    """Return the column of the lists of labels."""
    names = (columns.label,) if columns.label else (f"{columns.task}_tags", "labels")
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
    * `.conll`, `.txt`, `.tsv`, `.bio`, `.iob`, `.iob2`: a word and its labels on each line (CoNLL-2003, FCE), as
      `read_conll` describes.

    Blanks around a label are not part of it.

    Args:
        data: File or data set. The names of a data set's `ClassLabel` are its labels.
        columns: Columns of words and labels.
        require_labels: Raise an error for data without labels. If False, they get empty lists as `labels`.
        skip_empty: Leave out rows without words. If False, such rows are an error in CGED files, and are kept in .json
            and .jsonl files.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The data are invalid. The message names the place and a remedy.
    """
    columns = columns or TokenColumns()
    if not isinstance(data, str | os.PathLike):
        return _load_rows(open_source(data, "sentences"), columns, require_labels, skip_empty)
    path = Path(data)
    if path.suffix == ".xml":
        return load_cged(path, TOKEN_FEATURES, require_labels, skip_empty)
    if path.suffix == ".conllu":
        return _load_columns(path, read_conllu(path, CONLLU_COLUMNS[columns.name_of("conllu")]), require_labels)
    if path.suffix in COLUMN_SUFFIXES:
        return _load_columns(path, read_conll(path, columns.name_of("conll"), require_labels), require_labels)
    return _load_rows(open_source(path, "sentences", SUFFIXES), columns, require_labels, skip_empty)


def format_labels(path: str) -> tuple[str, ...]:
    """Return all labels of a file format; none if it allows any label."""
    return CGED_LABELS if Path(path).suffix == ".xml" else ()


def class_names(dataset: Dataset, columns: TokenColumns) -> list[str] | None:
    """Return the label names of a data set's `ClassLabel`; None if there is no `ClassLabel`."""
    column = label_column_of(columns).find(dataset.column_names)
    if column is None:
        return None
    feature = getattr(dataset.features[column], "feature", None)
    return _strip_names(feature.names, column) if isinstance(feature, ClassLabel) else None


def load_label_names(path: str, columns: TokenColumns) -> list[str]:
    """Read the names of numbered labels from a .json file: a list, or an object with a list for each column."""
    content = parse_json(read_text(path), str(path))
    if isinstance(content, dict):
        try:
            content = label_column_of(columns).read(content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    if not isinstance(content, list) or not content or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{path}: expected a list of names; found {describe_value(content)}.")
    return _strip_names(content, path)


def _strip_names(names: Iterable[str], where: str) -> list[str]:
    """Return names of labels without blanks around them; raise `ValueError` if two are equal, or one is empty."""
    stripped = [name.strip() for name in names]
    for name in stripped:
        if problem := _blank_inside(name):
            raise ValueError(f"{where}: the label {shorten(name)} {problem}.")
    if "" in stripped:
        raise ValueError(f"{where}: the name of label {stripped.index('')} is empty: give it one.")
    repeated = sorted(name for name in set(stripped) if stripped.count(name) > 1)
    if repeated:
        raise ValueError(f"{where}: the name {repeated[0]!r} occurs twice: remove one of them.")
    return stripped


def check_labels(sentences: Dataset, names: Sequence[str]) -> None:
    """Raise `ValueError` if a word has a label that is not in `names`."""
    allowed = set(names)
    columns = [sentences[name][:] for name in (PLACE, "tokens", "labels")]
    for where, tokens, labels in zip(*columns, strict=True):
        for index, label in enumerate(labels):
            if label not in allowed:
                raise ValueError(
                    f"{_word_in(where, tokens, index)}: the label {shorten(label)} is none of"
                    f" {join_names(names)}; give all with --label_names_file."
                )


def _load_rows(source: Source, columns: TokenColumns, require_labels: bool, skip_empty: bool) -> Dataset:
    names = columns.names
    if isinstance(source.rows, Dataset):
        names = class_names(source.rows, columns) or names
    words = Column(columns.name_of("text"), list, may_be_empty=not skip_empty, remedy="give --text_column_name")
    labels = replace(label_column_of(columns), required=require_labels)

    def convert(record: Record) -> Record:
        tokens = words.read(record)
        tags = labels.read(record)
        if not require_labels and (tags is None or _are_missing(tags, names)):
            return {"tokens": tokens, "labels": []}
        column = labels.find(record)
        if not isinstance(tags, list):
            raise ValueError(f"the field {column!r} must be a list of labels; found {describe_value(tags)}.")
        if len(tokens) != len(tags):
            raise ValueError(f"{len(tokens)} words in '{words}', but {len(tags)} labels in {column!r}.")
        return {"tokens": tokens, "labels": [_read_label(tag, names) for tag in tags]}

    sentences = convert_rows(source, [words, labels], TOKEN_FEATURES, convert, skip_empty=skip_empty)
    if not require_labels and names is None and _has_only(sentences, str(MISSING)):
        sentences = sentences.map(lambda labels: {"labels": []}, input_columns="labels", features=sentences.features)
    check_all_or_none(source, sentences, "labels")
    _check_tags(sentences)
    return sentences


def _check_tags(sentences: Dataset) -> None:
    """Raise `ValueError` for a label with a blank inside, one that is invisible, and two that look equal."""
    spellings: dict[str, str] = {}
    for label in sorted(_tags_of(sentences)):
        problem = _blank_inside(label)
        look = look_of(label)
        other = spellings.setdefault(look, label)
        if not look:
            problem = "has no visible character"
        elif other != label:
            problem = f"looks like {shorten(other)}; use one of them"
        if problem:
            raise ValueError(f"{place_of_label(sentences, label)}: the label {shorten(label)} {problem}.")


def _blank_inside(label: str) -> str:
    """Return the problem of a label with a blank inside, which separates labels in predictions.txt; "" if none."""
    return f"has a blank inside; write {'_'.join(label.split())}" if len(label.split()) > 1 else ""


def _tags_of(sentences: Dataset) -> set[str]:
    """Return the labels of all words, without a Python object for each word."""
    chunks = sentences.data.column("labels").chunks
    return {label for chunk in chunks for label in chunk.flatten().unique().to_pylist()}


def place_of_label(sentences: Dataset, label: str) -> str:
    """Return the place of the first word with a label, for error messages."""
    for where, tokens, labels in zip(*(sentences[name][:] for name in (PLACE, "tokens", "labels")), strict=True):
        if label in labels:
            return _word_in(where, tokens, labels.index(label))
    raise KeyError(label)


def _word_in(where: str, tokens: Sequence[str], index: int) -> str:
    return f"{where}, word {index + 1} ({shorten(tokens[index])})"


def _are_missing(tags: Any, names: Sequence[str] | None) -> bool:
    """Return True if all labels are missing. Without names, -1 may be a class as well."""
    return names is not None and isinstance(tags, list) and bool(tags) and all(tag == MISSING for tag in tags)


def _has_only(sentences: Dataset, label: str) -> bool:
    """Return True if no word of any sentence has another label."""
    return _tags_of(sentences) == {label}


def _read_label(tag: Any, names: Sequence[str] | None) -> str:
    if isinstance(tag, str) and tag.strip():
        return tag.strip()
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise ValueError(f"a label must be a text or a whole number; found {describe_value(tag)}.")
    if names is None:
        return str(tag)
    if not 0 <= tag < len(names):
        raise ValueError(f"the label {tag} has no name; there are names for 0 to {len(names) - 1}.")
    return names[tag]


def _load_columns(path: Path, lines: Iterable[Line], require_labels: bool) -> Dataset:
    rows: list[Record] = []
    for sentence in group_lines(lines):
        first_line = sentence[0][0]
        row = {
            "tokens": [columns[0] for _, columns in sentence],
            "labels": [label for _, columns in sentence for label in columns[1:]],
            PLACE: f"{path}, sentence in line {first_line}",
        }
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: holds no sentences; expected a word and its label on each line.")
    sentences = make_dataset(rows, TOKEN_FEATURES)
    if path.suffix == ".conllu" and _has_only(sentences, UNSPECIFIED):
        if require_labels:
            raise ValueError(f"{path}: has no labels: their column is {UNSPECIFIED!r} everywhere.")
        sentences = make_dataset([{**row, "labels": []} for row in rows], TOKEN_FEATURES)
    _check_tags(sentences)
    return sentences


def prepare_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Set up a tokenizer for lists of words: each word gets the pieces that it has in a text.

    If words of a list lack the mark of their beginning (`models/word_beginnings.py`), the tokenizer is changed to put
    a space before each of them and before texts, and is saved like that.

    Raises:
        ValueError: The tokenizer is slow, which cannot map tokens to words; or it loses the marks, now or as soon as
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
    steps = [normalizers.Prepend(" "), normalizers.Replace(Regex(r"\A  "), " ")]  # unless there is a space
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
    inside = _labels_inside(label_ids)
    encoded = tokenizer(examples["tokens"], is_split_into_words=True, truncation=True, max_length=max_length)
    encoded["labels"] = []
    encoded["visible_word_ids"] = []
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


def _labels_inside(label_ids: dict[str, int]) -> dict[int, int]:
    """Return the label of a word's later tokens for the label of its first token: `I-` for `B-`, or the same."""
    inside = {}
    for name, label in label_ids.items():
        inside[label] = label_ids.get(f"I-{name[2:]}", label) if name.startswith("B-") else label
    return inside
