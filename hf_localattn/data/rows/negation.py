"""Rows of negation scope detection: the words of a sentence, a cue in it, and the scope of the cue."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value

from hf_localattn.data.readers.negation import bioscope, sfu
from hf_localattn.data.readers.negation.rows import (
    ANNOTATIONS,
    CUE_KINDS,
    CUE_TYPES,
    NEGATION_FEATURES,
    Cue,
    Options,
    UniqueNames,
    no_cue_columns,
)
from hf_localattn.data.readers.negation.starsem import load_starsem
from hf_localattn.data.readers.tables import PathLike, Record, describe_value, read_text, shorten
from hf_localattn.data.readers.xml_files import parse_xml
from hf_localattn.data.schema import PLACE, Column, Schema, row_numbers

SUFFIXES = (".json", ".jsonl")
CORPORA_BY_ROOT = {bioscope.ROOT: bioscope.load_bioscope, sfu.ROOT: sfu.load_sfu}


def load_negation(
    path: PathLike,
    cues: str = "negation",
    cue_in_scope: str = "never",
    *,
    unmatched_scopes: str = "error",
    require_scopes: bool = True,
    skip_empty: bool = False,
    all_sentences: bool = False,
) -> Dataset:
    """Read a corpus of negation or speculation into rows of `NEGATION_FEATURES`, one for each cue of each sentence.

    Args:
        path: the SFU corpus (a folder, or one of its files), an XML file of BioScope, a .json or .jsonl file with
            columns of `NEGATION_FEATURES`, or a file of *SEM 2012.
        cues: "negation", "speculation" or "both". All rows of .json files are returned. Their `cue_kind` is `cues` if
            it is missing ("negation" for "both").
        cue_in_scope: "never": set `scope` to 0 for cue words except affixes; "corpus": keep the annotated scope.
        unmatched_scopes: "error": raise an error for a scope without a cue; "skip": leave it out with a warning.
        require_scopes: raise an error for rows of .json files without `scope`. If False, their scope is empty.
        skip_empty: leave out rows of .json files without words.
        all_sentences: add a row for each sentence without a cue of this kind: `cue` and `scope` are 0, `cue_type` is
            "none", `cue_kind` is None. Rows of .json files need no cue then.

    Raises:
        FileNotFoundError: the file or folder does not exist.
        ValueError: the file is invalid. The message names the place and a remedy.
    """
    path = Path(path)
    options = Options(cues, cue_in_scope, unmatched_scopes, all_sentences)
    corpus_options = asdict(options)
    if path.is_dir():
        return sfu.load_sfu(path, **corpus_options)
    if path.suffix in SUFFIXES:
        return _schema(options, require_scopes, skip_empty).load(path)
    text = read_text(path)
    if path.suffix != ".xml" and not text.lstrip().startswith("<"):
        return load_starsem(path, **corpus_options)
    root = parse_xml(text, str(path))
    if root.tag not in CORPORA_BY_ROOT:
        raise ValueError(
            f"{path}, line {root.line}: the root element {root.tag!r} belongs to no known corpus; it must be"
            f" {bioscope.ROOT!r} (BioScope) or {sfu.ROOT!r} (SFU)."
        )
    return CORPORA_BY_ROOT[root.tag](path, **corpus_options)


def normalize_negation(
    dataset: Dataset,
    name: str = "data set",
    cue_in_scope: str = "never",
    *,
    require_scopes: bool = True,
    skip_empty: bool = False,
    cues: str = "negation",
    all_sentences: bool = False,
) -> Dataset:
    """Convert the rows of a data set to `NEGATION_FEATURES`.

    The columns `tokens`, `cue` and `scope` are needed; `cue` and `scope` have 0 or 1 for each word. Other columns are
    filled in if missing: `cue_type` from the number of cue words (rows with an affix need `cue_type` "affix"),
    `document_id` from `name`, and `sentence_id` from the words. Rows with the same words then belong to one sentence.
    `cue_text` and `scope_text` are the whole words unless given, `cue_kind` is `cues` ("negation" for "both"), and
    `lemma`, `pos` and `parse` are empty. Row ids are made unique.

    Args:
        dataset: data set with a row for each cue of each sentence.
        name: name of the data set, for error messages.
        cue_in_scope: "never" or "corpus", as in `load_negation`.
        require_scopes: raise an error for rows without `scope`. If False, either all rows or none must have a scope.
        skip_empty: leave out rows without words.
        cues: see `load_negation`.
        all_sentences: accept rows without a cue, see `load_negation`.

    Raises:
        ValueError: a column is missing or a row is invalid. The message names the row and a remedy.
    """
    options = Options(cues, cue_in_scope, all_sentences=all_sentences)
    return _schema(options, require_scopes, skip_empty).normalize(dataset, name)


def _schema(options: Options, require_scopes: bool, skip_empty: bool) -> Schema:
    words = Column("tokens", list)
    columns = [words, Column("cue", None), Column("scope", None, required=require_scopes)]

    def convert(record: Record) -> Record:
        tokens = words.read(record)
        for token in tokens:
            if not token.strip():
                raise ValueError(f"a token must be a text that is not blank; found {shorten(token)}.")
        names = {name: record.get(name) for name in ("id", "document_id", "sentence_id")}
        return {
            **{name: None if value is None else str(value) for name, value in names.items()},
            "tokens": tokens,
            **_cue_columns(record, tokens, options, require_scopes),
            **{name: _texts(record, name, len(tokens)) for name in ANNOTATIONS},
        }

    features = Features({**NEGATION_FEATURES, PLACE: Value("string")})
    return Schema("rows", columns, features, convert, SUFFIXES, skip_empty, _complete)


def _cue_columns(record: Record, tokens: list[str], options: Options, require_scope: bool) -> Record:
    words = _places(record, "cue", len(tokens))
    # An empty list means that the scope is unknown.
    unknown = record.get("scope") in (None, [])
    if not words and options.all_sentences:
        return no_cue_columns(len(tokens), known=require_scope or not unknown)
    if not words:
        raise ValueError("no word is a cue; 'cue' needs a 1 for each cue word. Correct the row, or remove it.")
    if unknown and require_scope:
        raise ValueError(f"has no 'scope'; give a list with 0 or 1 for each of its {len(tokens)} words.")
    scope = None if unknown else _places(record, "scope", len(tokens))
    cue_type = _choice(record, "cue_type", CUE_TYPES)
    kind = _choice(record, "cue_kind", CUE_KINDS) or options.kinds[0]
    given = dict(enumerate(_texts(record, "cue_text", len(tokens)) or tokens))
    for place in words:
        if not given[place] or given[place] not in tokens[place]:
            raise ValueError(f"'cue_text' must be a part of {shorten(tokens[place])}; found {shorten(given[place])}.")
    affixes = {place: given[place] for place in words if cue_type == "affix" or given[place] != tokens[place]}
    scope_texts = dict(enumerate(_texts(record, "scope_text", len(tokens))))
    return Cue(kind, words, scope, affixes, scope_texts).columns(tokens, options.cue_in_scope)


def _choice(record: Record, name: str, choices: tuple[str, ...]) -> str | None:
    value = record.get(name)
    if value is not None and value not in choices:
        raise ValueError(f"{name!r} must be {', '.join(choices)}, or left out; found {shorten(value)}.")
    return value


def _texts(record: Record, name: str, length: int) -> list[str]:
    """Return the texts of a column with one text per word; empty if the column is missing or empty."""
    values: Any = record.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or len(values) not in (0, length) or not all(isinstance(v, str) for v in values):
        found = describe_value(values)
        raise ValueError(f"{name!r} must be a list with a text for each of its {length} words; found {found}.")
    return values


def _places(record: Record, name: str, length: int) -> list[int]:
    """Return the positions of the words with 1 in a column."""
    values: Any = record.get(name)
    if not isinstance(values, list) or len(values) != length:
        found = describe_value(values)
        raise ValueError(f"{name!r} must be a list with 0 or 1 for each of its {length} words; found {found}.")
    for value in values:
        if value not in (0, 1):
            raise ValueError(f"{name!r} must have 0 or 1 for each word; found {shorten(value)}.")
    return [place for place, value in enumerate(values) if value]


def _complete(rows: Dataset, name: str) -> Dataset:
    """Fill in the ids of rows, and check that either all rows have a scope or none."""
    unique, sentences, completed = UniqueNames(), dict[tuple[str, ...], str](), []
    for number, row in zip(row_numbers(rows), rows, strict=True):
        document_id = row["document_id"] if row["document_id"] is not None else Path(name).name
        key = (document_id, *row["tokens"])
        sentence_id = sentences.setdefault(key, f"{document_id}/{len(sentences) + 1}")
        names = {
            "id": unique(row["id"] if row["id"] is not None else str(number + 1)),
            "document_id": document_id,
            "sentence_id": row["sentence_id"] if row["sentence_id"] is not None else sentence_id,
        }
        completed.append({**row, **names})
    without = next((row[PLACE] for row in completed if not row["scope"]), None)
    if without is not None and any(row["scope"] for row in completed):
        raise ValueError(f"{without}: has no scope, but other rows have; give a scope for all rows, or for none.")
    return Dataset.from_list(completed, features=rows.features).remove_columns(PLACE)
