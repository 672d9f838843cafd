"""Negation: rows with the words of a sentence, a cue in it and the scope of the cue."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value, concatenate_datasets

from hf_localattn.data.negation_corpora import ANNOTATION_COLUMNS, Cue, Sentence, read_sentences, unique_name
from hf_localattn.data.rows import (
    JSON_SUFFIXES,
    Column,
    Data,
    PathLike,
    Record,
    check_all_or_none,
    convert_rows,
    describe_value,
    make_dataset,
    open_source,
    row_indices,
)
from hf_localattn.data.written_negation import is_pattern_file, write_sentences
from hf_localattn.errors import shorten
from hf_localattn.models.negation_labels import CUE_KINDS, CUE_TYPES, OUTSIDE
from hf_localattn.models.negation_text import affix_offsets
from hf_localattn.settings.columns import NegationCorpus

logger = logging.getLogger(__name__)

NEGATION_FEATURES = Features(
    {
        **{name: Value("string") for name in ("id", "document_id", "sentence_id")},
        "tokens": List(Value("string")),
        "cue": List(Value("int8")),
        "cue_type": Value("string"),
        "cue_kind": Value("string"),
        "cue_text": List(Value("string")),
        "scope": List(Value("int8")),
        "scope_text": List(Value("string")),
        **{name: List(Value("string")) for name in ANNOTATION_COLUMNS},
    }
)
"""`tokens` are words; `cue` and `scope` have a 0 or 1 per word. `scope` is empty if unknown.

`cue_text` and `scope_text` have the characters of each word that belong to cue and scope: `in` and `frequent` of
`infrequent`, "" for words outside. `lemma`, `pos` and `parse` have a value per word, or are empty. `id` is unique in a
file or folder; rows of the same sentence have the same `sentence_id`.
"""

QUESTION_FEATURES = Features({**NEGATION_FEATURES, "cue_labels": List(Value("string"))})
"""`NEGATION_FEATURES` and `cue_labels`: the label of each word in rows that ask for cues, empty in other rows."""

NO_CUE = "none"
"""`cue_type` of the row of a sentence without a cue. Such rows exist only if they are requested."""

"""Options of `load_negation`, and their values."""


def load_negation(
    data: Data | Sequence[PathLike],
    cues: str = "negation",
    cue_in_scope: str = "never",
    *,
    unmatched_scopes: str = "error",
    require_scopes: bool = True,
    skip_empty: bool = False,
    all_sentences: bool = False,
) -> Dataset:
    """Load corpora of negation or speculation into rows of `NEGATION_FEATURES`, one for each cue of each sentence.

    Rows of `.json` files and data sets need the columns `tokens`, `cue` and `scope`; `cue` and `scope` have 0 or 1 for
    each word. Other columns are filled in if missing; rows with an affix need `cue_type` "affix". Ids are made unique.

    Args:
        data: The SFU corpus (a folder, or one of its files), an XML file of BioScope, a file of *SEM 2012, a .yaml
            file of patterns that write sentences, or rows: a .json or .jsonl file or a data set. Also a list of files
            and folders, each read as its corpus.
        cues: "negation", "speculation" or "both". All rows of .json files and data sets are returned.
        cue_in_scope: "never": set `scope` to 0 for cue words except affixes; "corpus": keep the annotated scope.
        unmatched_scopes: "error": raise an error for a scope without a cue; "skip": leave it out with a warning.
        require_scopes: Raise an error for rows without `scope`. If False, either all rows or none must have a scope.
        skip_empty: Leave out rows without words.
        all_sentences: Add a row for each sentence without a cue of this kind: `cue` and `scope` are 0, `cue_type` is
            "none", `cue_kind` is None. Rows of .json files and data sets need no cue then.

    Raises:
        FileNotFoundError: The file or folder does not exist.
        ValueError: The data are invalid. The message names the place and a remedy.
    """
    checked: Any = (cues, cue_in_scope, unmatched_scopes, all_sentences)
    options = vars(NegationCorpus(*checked))
    row_options = {"require_scopes": require_scopes, "skip_empty": skip_empty}
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | os.PathLike) for path in data):
        return _load_corpora(data, {**options, **row_options})
    if isinstance(data, str | os.PathLike) and Path(data).suffix not in JSON_SUFFIXES:
        return _corpus_rows(Path(data), cues, cue_in_scope, unmatched_scopes, all_sentences)
    return _load_rows(data, cues, cue_in_scope, **row_options, all_sentences=all_sentences)


def _load_corpora(paths: Sequence[PathLike], options: Record) -> Dataset:
    parts = [load_negation(path, **options) for path in paths]
    for path, rows in zip(paths, parts, strict=True):
        logger.info("%s: %s.", path, describe_cues(rows))
    _check_agreement(paths, parts)
    joined = concatenate_datasets([rows.select_columns(list(NEGATION_FEATURES)) for rows in parts])
    return _with_ids(joined, "")


def _load_rows(
    data: Data, cues: str, cue_in_scope: str, require_scopes: bool, skip_empty: bool, all_sentences: bool
) -> Dataset:
    source = open_source(data, "rows", JSON_SUFFIXES)
    words = Column("tokens", list)
    default_kind = kinds_of(cues)[0]

    def convert(record: Record) -> Record:
        tokens = words.read(record)
        blank = [token for token in tokens if not token.strip()]
        if blank:
            raise ValueError(f"a token must be a text that is not blank; found {shorten(blank[0])}.")
        row = {"tokens": tokens}
        for name in ("id", "document_id", "sentence_id"):
            value = record.get(name)
            row[name] = None if value is None else str(value)
        for name in ANNOTATION_COLUMNS:
            row[name] = _texts(record, name, len(tokens))
        cue = _read_cue(record, tokens, default_kind, require_scopes)
        if cue is not None:
            return row | _cue_columns(cue, tokens, cue_in_scope)
        if not all_sentences:
            raise ValueError("no word is a cue; 'cue' needs a 1 for each cue word. Correct the row, or remove it.")
        has_scope = has_empty_scope(record, tokens) or require_scopes
        return row | no_cue_columns(tokens, has_scope)

    columns = [words, Column("cue", None), Column("scope", None, required=require_scopes)]
    rows = convert_rows(source, columns, NEGATION_FEATURES, convert, skip_empty=skip_empty)
    check_all_or_none(source, rows, "scope")
    return _with_ids(rows, Path(source.name).name)


def _check_agreement(paths: Sequence[PathLike], parts: Sequence[Dataset]) -> None:
    """Raise `ValueError` if two corpora have a sentence with different words in cues."""
    seen: dict[tuple[str, ...], tuple[PathLike, set[int]]] = {}
    for path, rows in zip(paths, parts, strict=True):
        for sentence in group_sentences(rows.select_columns(["document_id", "sentence_id", "tokens", "cue"])):
            words = tuple(sentence[0]["tokens"])
            cue_words = set[int]()
            for row in sentence:
                cue_words.update(_marked(row["cue"]))
            first_path, first_cue_words = seen.setdefault(words, (path, cue_words))
            # Short sentences ("No.") are in many documents, and mean different things there.
            if first_path != path and first_cue_words != cue_words and len(words) > 5:
                first_cues = _join_words(words, first_cue_words)
                cues = _join_words(words, cue_words)
                raise ValueError(
                    f"{first_path} and {path} contradict each other: the cues of {shorten(' '.join(words))} are"
                    f" {first_cues} and {cues}. Correct one of the files, or train on one of them."
                )


def _marked(marks: Sequence[int]) -> list[int]:
    """Return the indices of the words that are marked by 1."""
    return [index for index, is_marked in enumerate(marks) if is_marked]


def _join_words(words: Sequence[str], indices: Iterable[int]) -> str:
    return " ".join(words[index] for index in sorted(indices)) or "none"


def check_apart(train: Dataset, validation: Dataset) -> None:
    """Raise `ValueError` if both have a document. One that is named after its file of rows does not count."""
    both = {*train["document_id"]} & {*validation["document_id"]}
    shared = sorted(name for name in both if not name.endswith(JSON_SUFFIXES))
    if shared:
        raise ValueError(
            f"The document {shared[0]!r} is in the training and the validation data ({len(shared)} in all): the"
            " scores would be too high. Give each document to one of them."
        )


def kinds_of(cues: str) -> tuple[str, ...]:
    """Return the kinds of cues that get rows."""
    return CUE_KINDS if cues == "both" else (cues,)


def _corpus_rows(path: Path, cues: str, cue_in_scope: str, unmatched_scopes: str, all_sentences: bool) -> Dataset:
    rows: list[Record] = []
    strays: list[str] = []
    counts = Counter[str]()
    has_annotations = False
    for sentence in write_sentences(path) if is_pattern_file(path) else read_sentences(path):
        strays += sentence.strays
        if strays and unmatched_scopes == "error":
            raise ValueError(
                f"{strays[0]}: a scope needs a cue; correct the file, or leave such scopes out with"
                " unmatched_scopes='skip' (scripts: --unmatched_scopes skip)."
            )
        counts.update(cue.kind for cue in sentence.cues)
        has_annotations = has_annotations or bool(sentence.annotations)
        rows += _sentence_rows(sentence, kinds_of(cues), cue_in_scope, all_sentences)
    lacks_speculation = cues == "speculation" and has_annotations  # *SEM 2012 has only negation
    if not rows or lacks_speculation:
        others = ", ".join(f"{count} of {kind}" for kind, count in counts.items()) or "none of any kind"
        raise ValueError(f"{path}: has no cues of {' or '.join(kinds_of(cues))}; there are {others}.")
    if strays:
        logger.warning("Scopes without a cue, left out: %d; the first one: %s.", len(strays), strays[0])
    return make_dataset(rows, NEGATION_FEATURES)


def _sentence_rows(sentence: Sentence, kinds: Sequence[str], cue_in_scope: str, all_sentences: bool) -> list[Record]:
    """Return the rows of a sentence's cues; with `all_sentences`, one row for a sentence without such cues."""
    tokens = sentence.tokens
    shared = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id, "tokens": tokens}
    for name in ANNOTATION_COLUMNS:
        shared[name] = sentence.annotations.get(name, [])
    rows = []
    # All kinds are counted, so that an id does not depend on options.
    for index, cue in enumerate(sentence.cues, start=1):
        if cue.kind in kinds:
            columns = _cue_columns(cue, tokens, cue_in_scope)
            rows.append({"id": f"{sentence.sentence_id}/{index}", **shared, **columns})
    if all_sentences and not rows:
        rows.append({"id": f"{sentence.sentence_id}/0", **shared, **no_cue_columns(tokens)})
    return rows


def _cue_columns(cue: Cue, tokens: Sequence[str], cue_in_scope: str) -> Record:
    scope = cue.scope
    if scope is not None and cue_in_scope == "never":
        whole_words = set(cue.words) - set(cue.affixes)
        scope = set(scope) - whole_words
    cue_text = [cue.affixes.get(index, word) if index in cue.words else "" for index, word in enumerate(tokens)]
    marks = [] if scope is None else _marks(scope, len(tokens))
    scope_text = scope_characters(tokens, cue_text, marks)
    for index, annotated in cue.scope_texts.items():
        if annotated and scope_text and scope_text[index]:
            scope_text[index] = annotated
    return {
        "cue": _marks(cue.words, len(tokens)),
        "cue_type": _type_of(cue),
        "cue_kind": cue.kind,
        "cue_text": cue_text,
        "scope": marks,
        "scope_text": scope_text,
    }


def _marks(words: Collection[int], length: int) -> list[int]:
    """Return 1 for each of the words, and 0 for the others."""
    return [int(index in words) for index in range(length)]


def _type_of(cue: Cue) -> str:
    if len(cue.words) > 1:
        return "multi"
    return "affix" if cue.affixes else "single"


def no_cue_columns(tokens: Sequence[str], has_scope: bool = True) -> Record:
    """Return the columns of cue and scope for a sentence without a cue; its scope is empty, or unknown."""
    zeros = [0] * len(tokens)
    texts = [""] * len(tokens)
    return {
        "cue": zeros,
        "cue_type": NO_CUE,
        "cue_kind": None,
        "cue_text": texts,
        "scope": zeros if has_scope else [],
        "scope_text": texts if has_scope else [],
    }


def scope_characters(tokens: Sequence[str], cue_text: Sequence[str], scope: Sequence[int]) -> list[str]:
    """Return the characters of each word that are in scope: the whole word, or the part that is not the cue's affix.

    An affix inside its word has the scope before it: `breath` of `breathlessness` for the cue `less`, as in *SEM 2012.
    Words outside have "". The result is empty if the scope is unknown, that is if `scope` is empty.
    """
    if not scope:
        return []
    texts = []
    for word, affix, is_inside in zip(tokens, cue_text, scope, strict=True):
        before, _, after = word.partition(affix) if affix else ("", "", word)
        texts.append((before or after or word) if is_inside else "")
    return texts


def has_empty_scope(record: Record, tokens: Sequence[str]) -> bool:
    """Return True if the scope of a row without a cue is known to be empty, and False if it is unknown.

    Raises:
        ValueError: A word is in scope, which needs a cue.
    """
    if record.get("scope") in (None, []):
        return False
    if _read_marks(record, "scope", len(tokens)):
        raise ValueError("a word is in 'scope', but no word is a cue; mark the cue by 1 in 'cue', or correct 'scope'.")
    return True


def _read_cue(record: Record, tokens: list[str], default_kind: str, require_scope: bool) -> Cue | None:
    """Return the cue of a row, with its scope if known; None if no word is a cue."""
    words = _read_marks(record, "cue", len(tokens))
    if not words:
        return None
    is_unknown = record.get("scope") in (None, [])
    if is_unknown and require_scope:
        raise ValueError(f"has no 'scope'; give a list with 0 or 1 for each of its {len(tokens)} words.")
    scope = None if is_unknown else _read_marks(record, "scope", len(tokens))
    cue_type = _read_choice(record, "cue_type", CUE_TYPES)
    cue_kind = _read_choice(record, "cue_kind", CUE_KINDS) or default_kind
    cue_text = _texts(record, "cue_text", len(tokens)) or tokens
    affixes = {}
    for index in words:
        word = tokens[index]
        text = cue_text[index]
        if not text or text not in word:
            raise ValueError(f"'cue_text' must be a part of {shorten(word)}; found {shorten(text)}.")
        if cue_type == "affix" or text != word:
            affixes[index] = text
    scope_texts = dict(enumerate(_texts(record, "scope_text", len(tokens))))
    return Cue(cue_kind, words, scope, affixes, scope_texts)


def _read_choice(record: Record, name: str, choices: Sequence[str]) -> str | None:
    value = record.get(name)
    if value is not None and value not in choices:
        raise ValueError(f"{name!r} must be {', '.join(choices)}, or left out; found {shorten(value)}.")
    return value


def _texts(record: Record, name: str, length: int) -> list[str]:
    texts: Any = record.get(name)
    if texts is None:
        return []
    if (
        not isinstance(texts, list)
        or len(texts) not in (0, length)
        or not all(isinstance(text, str) for text in texts)
    ):
        raise ValueError(
            f"{name!r} must be a list with a text for each of its {length} words; found {describe_value(texts)}."
        )
    return texts


def _read_marks(record: Record, name: str, length: int) -> list[int]:
    """Return the indices of the words that a row marks by 1 (or True) in a column."""
    marks: Any = record.get(name)
    if not isinstance(marks, list) or len(marks) != length:
        raise ValueError(
            f"{name!r} must be a list with 0 or 1 for each of its {length} words; found {describe_value(marks)}."
        )
    wrong = [mark for mark in marks if mark not in (0, 1)]
    if wrong:
        raise ValueError(f"{name!r} must have 0 or 1 for each word; found {shorten(wrong[0])}.")
    return _marked(marks)


def _with_ids(rows: Dataset, source_name: str) -> Dataset:
    """Fill in the ids of rows, and make those of rows unique."""
    ids = set[str]()
    sentence_ids: dict[tuple[str, ...], str] = {}
    completed = []
    for index, row in zip(row_indices(rows), rows, strict=True):
        if row["document_id"] is None:
            row["document_id"] = source_name
        key = (row["document_id"], *row["tokens"])
        sentence_id = sentence_ids.setdefault(key, f"{row['document_id']}/{len(sentence_ids) + 1}")
        if row["sentence_id"] is None:
            row["sentence_id"] = sentence_id
        name = str(index + 1) if row["id"] is None else row["id"]
        row["id"] = unique_name(name, ids)
        completed.append(row)
    return make_dataset(completed, rows.features)


def describe_cues(rows: Dataset) -> str:
    """Summarize rows for the log: the numbers of cues by type, and of sentences."""
    counts = Counter(rows["cue_type"])
    listed = ", ".join(f"{counts[cue_type]} {cue_type}" for cue_type in CUE_TYPES if counts[cue_type]) or "none"
    return f"cues: {listed}; sentences: {len(set(rows['sentence_id']))}"


def group_sentences(rows: Iterable[Record]) -> list[list[Record]]:
    """Return the rows of each sentence, in the order of their first rows."""
    sentences: dict[Any, list[Record]] = {}
    for row in rows:
        sentences.setdefault((row["document_id"], row["sentence_id"], *row["tokens"]), []).append(row)
    return list(sentences.values())


def add_questions(rows: Dataset, limit: int | None = None) -> Dataset:
    """Add a row for each sentence, which asks for its cues. It comes before the rows with its cues.

    With `limit`, at most that many of `rows` are used. A sentence is used only if all its rows are within the limit,
    except for the first sentence.
    """
    questions_and_rows: list[Record] = []
    used = 0
    for sentence in group_sentences(rows):
        used += len(sentence)
        if limit is not None and used > limit and questions_and_rows:
            break
        questions_and_rows.append(_question(sentence))
        questions_and_rows += [{**row, "cue_labels": []} for row in sentence if any(row["cue"])]
    return make_dataset(questions_and_rows, QUESTION_FEATURES)


def _question(sentence: Sequence[Record]) -> Record:
    """Return a row that asks for the cues of a sentence, given its rows."""
    first = sentence[0]
    labels = [OUTSIDE] * len(first["tokens"])
    for row in sentence:
        for word in _marked(row["cue"]):
            if labels[word] == OUTSIDE:  # a word of two cues has the label of the first
                labels[word] = f"{row['cue_kind']}:{row['cue_type']}"
    has_scopes = all(row["scope"] for row in sentence)
    no_cue = no_cue_columns(first["tokens"], has_scopes)
    return {**first, **no_cue, "id": first["sentence_id"], "cue_labels": labels}


def with_negation(row: Record, words: Collection[int], scope: Sequence[int], *, affix: bool = False) -> Record:
    """Return a row of the same sentence with a predicted negation: the indices of its cue's words, and its scope.

    With `affix`, the cue is an affix of its word (`affix_offsets`).
    """
    cue_text = [""] * len(row["tokens"])
    for index in words:
        word = row["tokens"][index]
        cue_text[index] = word[slice(*affix_offsets(word))] if affix else word
    return with_scope({**row, "cue_text": cue_text}, scope)


def with_scope(row: Record, scope: Sequence[int]) -> Record:
    """Return a row with another scope, such as a predicted one: 1 for each word in scope, and 0 for the others."""
    return {**row, "scope": list(scope), "scope_text": scope_characters(row["tokens"], row["cue_text"], scope)}
