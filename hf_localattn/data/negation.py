"""Negation: rows with the words of a sentence, a cue in it and the scope of the cue."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value, concatenate_datasets

from hf_localattn.data.negation_corpora import ANNOTATION_COLUMNS, Cue, read_sentences, unique_name
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
    row_numbers,
    shorten,
)
from hf_localattn.data.written_negation import is_pattern_file, write_sentences
from hf_localattn.models.negation_finder import CUE_KINDS, CUE_TYPES, OUTSIDE
from hf_localattn.models.negation_text import affix_offsets

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

OPTIONS = {"cues": (*CUE_KINDS, "both"), "cue_in_scope": ("never", "corpus"), "unmatched_scopes": ("error", "skip")}
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
        data: the SFU corpus (a folder, or one of its files), an XML file of BioScope, a file of *SEM 2012, a .yaml
            file of patterns that write sentences, or rows: a .json or .jsonl file or a data set. Also a list of files
            and folders, each read as its corpus.
        cues: "negation", "speculation" or "both". All rows of .json files and data sets are returned.
        cue_in_scope: "never": set `scope` to 0 for cue words except affixes; "corpus": keep the annotated scope.
        unmatched_scopes: "error": raise an error for a scope without a cue; "skip": leave it out with a warning.
        require_scopes: raise an error for rows without `scope`. If False, either all rows or none must have a scope.
        skip_empty: leave out rows without words.
        all_sentences: add a row for each sentence without a cue of this kind: `cue` and `scope` are 0, `cue_type` is
            "none", `cue_kind` is None. Rows of .json files and data sets need no cue then.

    Raises:
        FileNotFoundError: the file or folder does not exist.
        ValueError: the data are invalid. The message names the place and a remedy.
    """
    for name, value in (("cues", cues), ("cue_in_scope", cue_in_scope), ("unmatched_scopes", unmatched_scopes)):
        if value not in OPTIONS[name]:
            raise ValueError(f"{name} must be {' or '.join(OPTIONS[name])}; got {value!r}.")
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | os.PathLike) for path in data):
        options: dict[str, Any] = {"unmatched_scopes": unmatched_scopes, "require_scopes": require_scopes}
        options |= {"skip_empty": skip_empty, "all_sentences": all_sentences}
        parts = [load_negation(path, cues, cue_in_scope, **options) for path in data]
        for path, rows in zip(data, parts, strict=True):
            logger.info("%s: %s.", path, describe_cues(rows))
        _check_agreement(data, parts)
        return _with_ids(concatenate_datasets([rows.select_columns(list(NEGATION_FEATURES)) for rows in parts]), "")
    if isinstance(data, str | os.PathLike) and Path(data).suffix not in JSON_SUFFIXES:
        return _corpus_rows(Path(data), cues, cue_in_scope, unmatched_scopes, all_sentences)
    source, words = open_source(data, "rows", JSON_SUFFIXES), Column("tokens", list)

    def convert(record: Record) -> Record:
        tokens = words.read(record)
        if blank := [token for token in tokens if not token.strip()]:
            raise ValueError(f"a token must be a text that is not blank; found {shorten(blank[0])}.")
        names = {name: record.get(name) for name in ("id", "document_id", "sentence_id")}
        cue = _read_cue(record, tokens, cues, require_scopes, all_sentences)
        return {
            **{name: None if value is None else str(value) for name, value in names.items()},
            "tokens": tokens,
            **(_cue_columns(cue, tokens, cue_in_scope) if isinstance(cue, Cue) else no_cue_columns(tokens, cue)),
            **{name: _texts(record, name, len(tokens)) for name in ANNOTATION_COLUMNS},
        }

    columns = [words, Column("cue", None), Column("scope", None, required=require_scopes)]
    rows = convert_rows(source, columns, NEGATION_FEATURES, convert, skip_empty=skip_empty)
    check_all_or_none(source, rows, "scope")
    return _with_ids(rows, Path(source.name).name)


def _check_agreement(names: Sequence[PathLike], parts: Sequence[Dataset]) -> None:
    """Raise `ValueError` if two corpora have a sentence with different words in cues."""
    seen: dict[tuple[str, ...], tuple[PathLike, set[int]]] = {}
    for name, rows in zip(names, parts, strict=True):
        for sentence in group_sentences(rows.select_columns(["document_id", "sentence_id", "tokens", "cue"])):
            words = tuple(sentence[0]["tokens"])
            cues = {place for row in sentence for place, is_cue in enumerate(row["cue"]) if is_cue}
            other, known = seen.setdefault(words, (name, cues))
            # Short sentences ("No.") are in many documents, and mean different things there.
            if other != name and known != cues and len(words) > 5:
                found = [" ".join(words[place] for place in sorted(own)) or "none" for own in (known, cues)]
                raise ValueError(
                    f"{other} and {name} contradict each other: the cues of {shorten(' '.join(words))} are"
                    f" {' and '.join(found)}. Correct one of the files, or train on one of them."
                )


def check_apart(train: Dataset, validation: Dataset) -> None:
    """Raise `ValueError` if both have a document. One that is named after its file of rows does not count."""
    names = {*train["document_id"]} & {*validation["document_id"]}
    if shared := sorted(name for name in names if not name.endswith(JSON_SUFFIXES)):
        raise ValueError(
            f"The document {shared[0]!r} is in the training and the validation data ({len(shared)} in all): the"
            " scores would be too high. Give each document to one of them."
        )


def kinds_of(cues: str) -> tuple[str, ...]:
    """Return the kinds of cues that get rows."""
    return CUE_KINDS if cues == "both" else (cues,)


def _corpus_rows(path: Path, cues: str, cue_in_scope: str, unmatched_scopes: str, all_sentences: bool) -> Dataset:
    rows, kinds, strays = [], Counter[str](), list[str]()
    for sentence in write_sentences(path) if is_pattern_file(path) else read_sentences(path):
        strays += sentence.strays
        if strays and unmatched_scopes == "error":
            raise ValueError(
                f"{strays[0]}: a scope needs a cue; correct the file, or leave such scopes out with"
                " unmatched_scopes='skip' (scripts: --unmatched_scopes skip)."
            )
        kinds.update(cue.kind for cue in sentence.cues)
        found = {  # numbers of cues of all kinds, so that the id does not depend on options
            number: _cue_columns(cue, sentence.tokens, cue_in_scope)
            for number, cue in enumerate(sentence.cues, start=1)
            if cue.kind in kinds_of(cues)
        }
        if all_sentences and not found:
            found = {0: no_cue_columns(sentence.tokens)}
        shared = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id, "tokens": sentence.tokens}
        shared |= {name: sentence.annotations.get(name, []) for name in ANNOTATION_COLUMNS}
        rows += [{"id": f"{sentence.sentence_id}/{number}", **shared, **cue} for number, cue in found.items()]
    if not rows or (cues == "speculation" and sentence.annotations):  # *SEM 2012 has only negation
        others = ", ".join(f"{count} of {kind}" for kind, count in kinds.items()) or "none of any kind"
        raise ValueError(f"{path}: has no cues of {' or '.join(kinds_of(cues))}; there are {others}.")
    if strays:
        logger.warning("Scopes without a cue, left out: %d; the first one: %s.", len(strays), strays[0])
    return make_dataset(rows, NEGATION_FEATURES)


def _cue_columns(cue: Cue, tokens: Sequence[str], cue_in_scope: str) -> Record:
    scope = cue.scope
    if scope is not None and cue_in_scope == "never":
        scope = set(scope) - (set(cue.words) - set(cue.affixes))
    cue_text = [cue.affixes.get(place, word) if place in cue.words else "" for place, word in enumerate(tokens)]
    marks = [] if scope is None else [int(place in scope) for place in range(len(tokens))]
    texts = scope_characters(tokens, cue_text, marks)
    return {
        "cue": [int(place in cue.words) for place in range(len(tokens))],
        "cue_type": "multi" if len(cue.words) > 1 else "affix" if cue.affixes else "single",
        "cue_kind": cue.kind,
        "cue_text": cue_text,
        "scope": marks,
        "scope_text": [text and (cue.scope_texts.get(place) or text) for place, text in enumerate(texts)],
    }


def no_cue_columns(tokens: Sequence[str], known: bool = True) -> Record:
    """Return the columns of cue and scope for a sentence without a cue; its scope is empty, or unknown."""
    zeros, texts = [0] * len(tokens), [""] * len(tokens)
    scope = {"scope": zeros if known else [], "scope_text": texts if known else []}
    return {"cue": zeros, "cue_type": NO_CUE, "cue_kind": None, "cue_text": texts, **scope}


def scope_characters(tokens: Sequence[str], cue_text: Sequence[str], scope: Sequence[int]) -> list[str]:
    """Return the characters of each word that are in scope: the whole word, or the part that is not the cue's affix.

    An affix inside its word has the scope before it: `breath` of `breathlessness` for the cue `less`, as in *SEM 2012.
    Words outside have "". The result is empty if the scope is unknown, that is if `scope` is empty.
    """
    texts = []
    for word, affix, inside in zip(tokens, cue_text, scope, strict=True) if scope else ():
        before, _, after = word.partition(affix) if affix else ("", "", word)
        texts.append((before or after or word) if inside else "")
    return texts


def _read_cue(record: Record, tokens: list[str], cues: str, require_scope: bool, all_sentences: bool) -> Cue | bool:
    # without a cue: True if the scope is known to be empty
    words = _places(record, "cue", len(tokens))
    unknown = record.get("scope") in (None, [])
    if not words and all_sentences:
        return require_scope or not unknown
    if not words:
        raise ValueError("no word is a cue; 'cue' needs a 1 for each cue word. Correct the row, or remove it.")
    if unknown and require_scope:
        raise ValueError(f"has no 'scope'; give a list with 0 or 1 for each of its {len(tokens)} words.")
    scope = None if unknown else _places(record, "scope", len(tokens))
    for name, choices in (("cue_type", CUE_TYPES), ("cue_kind", CUE_KINDS)):
        if (value := record.get(name)) is not None and value not in choices:
            raise ValueError(f"{name!r} must be {', '.join(choices)}, or left out; found {shorten(value)}.")
    given = dict(enumerate(_texts(record, "cue_text", len(tokens)) or tokens))
    for place in words:
        if not given[place] or given[place] not in tokens[place]:
            raise ValueError(f"'cue_text' must be a part of {shorten(tokens[place])}; found {shorten(given[place])}.")
    is_affix = record.get("cue_type") == "affix"
    affixes = {place: given[place] for place in words if is_affix or given[place] != tokens[place]}
    scope_texts = dict(enumerate(_texts(record, "scope_text", len(tokens))))
    return Cue(record.get("cue_kind") or kinds_of(cues)[0], words, scope, affixes, scope_texts)


def _texts(record: Record, name: str, length: int) -> list[str]:
    values: Any = [] if record.get(name) is None else record[name]
    if not isinstance(values, list) or len(values) not in (0, length) or not all(isinstance(v, str) for v in values):
        found = describe_value(values)
        raise ValueError(f"{name!r} must be a list with a text for each of its {length} words; found {found}.")
    return values


def _places(record: Record, name: str, length: int) -> list[int]:
    values: Any = record.get(name)
    if not isinstance(values, list) or len(values) != length:
        found = describe_value(values)
        raise ValueError(f"{name!r} must be a list with 0 or 1 for each of its {length} words; found {found}.")
    if wrong := [value for value in values if value not in (0, 1)]:
        raise ValueError(f"{name!r} must have 0 or 1 for each word; found {shorten(wrong[0])}.")
    return [place for place, value in enumerate(values) if value]


def _with_ids(rows: Dataset, name: str) -> Dataset:
    """Fill in the ids of rows, and make those of rows unique."""
    names, sentences, completed = set[str](), dict[tuple[str, ...], str](), []
    for number, row in zip(row_numbers(rows), rows, strict=True):
        row["document_id"] = name if row["document_id"] is None else row["document_id"]
        key = (row["document_id"], *row["tokens"])
        sentence_id = sentences.setdefault(key, f"{row['document_id']}/{len(sentences) + 1}")
        row["id"] = unique_name(str(number + 1) if row["id"] is None else row["id"], names)
        row["sentence_id"] = sentence_id if row["sentence_id"] is None else row["sentence_id"]
        completed.append(row)
    return make_dataset(completed, rows.features)


def describe_cues(rows: Dataset) -> str:
    """Summarize rows for the log: the numbers of cues by type, and of sentences."""
    types = Counter(rows["cue_type"])
    counted = ", ".join(f"{types[name]} {name}" for name in CUE_TYPES if types[name]) or "none"
    return f"cues: {counted}; sentences: {len(set(rows['sentence_id']))}"


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
        labels = [OUTSIDE] * len(sentence[0]["tokens"])
        for row in sentence:
            for word, is_cue in enumerate(row["cue"]):
                if is_cue and labels[word] == OUTSIDE:  # a word of two cues has the label of the first
                    labels[word] = f"{row['cue_kind']}:{row['cue_type']}"
        none = no_cue_columns(labels, all(row["scope"] for row in sentence))
        question = {**sentence[0], "id": sentence[0]["sentence_id"], **none, "cue_labels": labels}
        questions_and_rows += [question, *({**row, "cue_labels": []} for row in sentence if any(row["cue"]))]
    return make_dataset(questions_and_rows, QUESTION_FEATURES)


def with_negation(row: Record, words: Collection[int], scope: Sequence[int], *, affix: bool = False) -> Record:
    """Return a row of the same sentence with a predicted negation: the indices of its cue's words, and its scope.

    With `affix`, the cue is an affix of its word (`affix_offsets`).
    """
    cue = [""] * len(row["tokens"])
    for place in words:
        word = row["tokens"][place]
        cue[place] = word[slice(*affix_offsets(word))] if affix else word
    return with_scope({**row, "cue_text": cue}, scope)


def with_scope(row: Record, scope: Sequence[int]) -> Record:
    """Return a row with another scope, such as a predicted one: 1 for each word in scope, and 0 for the others."""
    return {**row, "scope": list(scope), "scope_text": scope_characters(row["tokens"], row["cue_text"], scope)}
