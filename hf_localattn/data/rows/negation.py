"""Rows of negation scope detection: the words of a sentence, a cue in it, and the scope of the cue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value

from hf_localattn.data.readers.negation import bioscope, sfu
from hf_localattn.data.readers.negation.rows import CUE_TYPES, NEGATION_FEATURES, Cue, Options, UniqueNames
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
) -> Dataset:
    """Read a corpus of negation or speculation into rows of `NEGATION_FEATURES`, one for each cue of each sentence.

    Args:
        path: the SFU corpus (a folder, or one of its files), an XML file of BioScope, a .json or .jsonl file with
            columns of `NEGATION_FEATURES`, or a file of *SEM 2012.
        cues: "negation" or "speculation". Rows of .json files do not distinguish them, and are all returned.
        cue_in_scope: "never": set `scope` to 0 for cue words except affixes; "corpus": keep the annotated scope.
        unmatched_scopes: "error": raise an error for a scope without a cue; "skip": leave it out with a warning.
        require_scopes: raise an error for rows of .json files without `scope`. If False, their scope is empty.
        skip_empty: leave out rows of .json files without words.

    Raises:
        FileNotFoundError: the file or folder does not exist.
        ValueError: the file is invalid. The message names the place and a remedy.
    """
    path = Path(path)
    Options(cues, cue_in_scope, unmatched_scopes)
    if path.is_dir():
        return sfu.load_sfu(path, cues, cue_in_scope, unmatched_scopes=unmatched_scopes)
    if path.suffix in SUFFIXES:
        return _schema(cue_in_scope, require_scopes, skip_empty).load(path)
    text = read_text(path)
    if path.suffix != ".xml" and not text.lstrip().startswith("<"):
        return load_starsem(path, cues, cue_in_scope, unmatched_scopes=unmatched_scopes)
    root = parse_xml(text, str(path))
    if root.tag not in CORPORA_BY_ROOT:
        raise ValueError(
            f"{path}, line {root.line}: the root element {root.tag!r} belongs to no known corpus; it must be"
            f" {bioscope.ROOT!r} (BioScope) or {sfu.ROOT!r} (SFU)."
        )
    return CORPORA_BY_ROOT[root.tag](path, cues, cue_in_scope, unmatched_scopes=unmatched_scopes)


def normalize_negation(
    dataset: Dataset,
    name: str = "data set",
    cue_in_scope: str = "never",
    *,
    require_scopes: bool = True,
    skip_empty: bool = False,
) -> Dataset:
    """Convert the rows of a data set to `NEGATION_FEATURES`.

    The columns `tokens`, `cue` and `scope` are needed; `cue` and `scope` have 0 or 1 for each word. Other columns are
    filled in if missing: `cue_type` from the number of cue words (rows with an affix need `cue_type` "affix"),
    `document_id` from `name`, and `sentence_id` from the words. Rows with the same words then belong to one sentence.
    Row ids are made unique.

    Args:
        dataset: data set with a row for each cue of each sentence.
        name: name of the data set, for error messages.
        cue_in_scope: "never" or "corpus", as in `load_negation`.
        require_scopes: raise an error for rows without `scope`. If False, either all rows or none must have a scope.
        skip_empty: leave out rows without words.

    Raises:
        ValueError: a column is missing or a row is invalid. The message names the row and a remedy.
    """
    Options(cue_in_scope=cue_in_scope)
    return _schema(cue_in_scope, require_scopes, skip_empty).normalize(dataset, name)


def _schema(cue_in_scope: str, require_scopes: bool, skip_empty: bool) -> Schema:
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
            **_read_cue(record, len(tokens), require_scopes).labels(len(tokens), cue_in_scope),
        }

    features = Features({**NEGATION_FEATURES, PLACE: Value("string")})
    return Schema("rows", columns, features, convert, SUFFIXES, skip_empty, _complete)


def _read_cue(record: Record, length: int, require_scope: bool) -> Cue:
    words = _places(record, "cue", length)
    if not words:
        raise ValueError("no word is a cue; 'cue' needs a 1 for each cue word. Correct the row, or remove it.")
    # An empty list means that the scope is unknown.
    unknown = record.get("scope") in (None, [])
    if unknown and require_scope:
        raise ValueError(f"has no 'scope'; give a list with 0 or 1 for each of its {length} words.")
    scope = None if unknown else _places(record, "scope", length)
    cue_type = record.get("cue_type")
    if cue_type is not None and cue_type not in CUE_TYPES:
        raise ValueError(f"'cue_type' must be {', '.join(CUE_TYPES)}, or left out; found {shorten(cue_type)}.")
    return Cue("negation", words, scope, words if cue_type == "affix" else ())


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
