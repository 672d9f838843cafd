"""Rows of words, cues and scopes that come as they are, from .json files or the Hub: checked and completed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets import Dataset

from hf_localattn.data.readers.negation.rows import CUE_TYPES, NEGATION_FEATURES, Cue, Options, UniqueNames
from hf_localattn.data.readers.tables import Record, read_rows, shape_of, shorten

RECORD_SUFFIXES = (".json", ".jsonl")


def load_records(path: Path, cue_in_scope: str = "never", *, require_scopes: bool = True) -> Dataset:
    """Read rows of a .json or .jsonl file into rows of `NEGATION_FEATURES`, as `normalize_negation` does.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a row cannot be used; names the line and the remedy.
    """
    records = read_rows(path, suffixes=RECORD_SUFFIXES, what="rows of cues")
    return _complete(records, str(path), cue_in_scope, require_scopes)


def normalize_negation(
    dataset: Dataset, name: str = "data set", cue_in_scope: str = "never", *, require_scopes: bool = True
) -> Dataset:
    """Check rows from elsewhere and return them in the form of `NEGATION_FEATURES`.

    They need `tokens`, `cue` and `scope`; 0 or 1 for each word in the latter two. `cue_type` is taken from the number
    of cue words where it is missing (so that affixes have to be named), `document_id` from `name`, and `sentence_id`
    from the words: rows of the same words are of one sentence. Names of rows are made unique.

    Args:
        dataset: one row for each cue of each sentence.
        name: says in errors what is checked.
        cue_in_scope: "never" | "corpus", as in `load_negation`.
        require_scopes: whether rows without `scope` are an error; if not, theirs is empty. All have one, or none.

    Raises:
        ValueError: a column is missing or a row is not usable; names the row and the remedy.
    """
    records = ((f"row {number}", row) for number, row in enumerate(dataset, start=1))
    return _complete(records, name, cue_in_scope, require_scopes)


def _complete(records: Iterable[tuple[str, Any]], name: str, cue_in_scope: str, require_scopes: bool) -> Dataset:
    Options(cue_in_scope=cue_in_scope)
    unique, sentences, rows = UniqueNames(), dict[tuple[str, ...], str](), []
    unlabelled = ""
    for number, (place, record) in enumerate(records, start=1):
        where = f"{name}, {place}"
        if not isinstance(record, dict):
            raise ValueError(f"{where}: expected an object with tokens, cue and scope; found {shape_of(record)}.")
        tokens = _tokens(record, where)
        cue = _cue(record, len(tokens), where, require_scopes)
        document_id = _text(record, "document_id", Path(name).name)
        sentence_id = sentences.setdefault((document_id, *tokens), f"{document_id}/{len(sentences) + 1}")
        rows.append(
            {
                "id": unique(_text(record, "id", str(number))),
                "document_id": document_id,
                "sentence_id": _text(record, "sentence_id", sentence_id),
                "tokens": tokens,
                **cue.labels(len(tokens), cue_in_scope),
            }
        )
        if cue.scope is None and not unlabelled:
            unlabelled = where
    if not rows:
        raise ValueError(f"{name}: holds no rows.")
    if unlabelled and any(row["scope"] for row in rows):
        raise ValueError(f"{unlabelled}: has no scope, but others have; give it to all rows, or to none.")
    return Dataset.from_list(rows, features=NEGATION_FEATURES)


def _tokens(record: Record, where: str) -> list[str]:
    tokens = record.get("tokens")
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(f"{where}: 'tokens' must be the list of the sentence's words; found {shape_of(tokens)}.")
    for token in tokens:
        if not isinstance(token, str) or not token.strip():
            raise ValueError(f"{where}: a token must be a text that is not blank; found {shorten(token)}.")
    return tokens


def _cue(record: Record, length: int, where: str, require_scope: bool) -> Cue:
    words = _places(record, "cue", length, where)
    if not words:
        raise ValueError(f"{where}: no word is a cue; 'cue' needs a 1 at each cue word. Leave such rows out.")
    # An empty list is what this very form has where no scope is known.
    unknown = record.get("scope") in (None, [])
    if unknown and require_scope:
        raise ValueError(f"{where}: has no 'scope'; give a list with 0 or 1 for each of its {length} words.")
    scope = None if unknown else _places(record, "scope", length, where)
    cue_type = record.get("cue_type")
    if cue_type is not None and cue_type not in CUE_TYPES:
        raise ValueError(
            f"{where}: 'cue_type' must be {', '.join(CUE_TYPES)}, or left out; found {shorten(cue_type)}."
        )
    return Cue("negation", words, scope, words if cue_type == "affix" else ())


def _places(record: Record, name: str, length: int, where: str) -> list[int]:
    """Return where a column has a 1."""
    values = record.get(name)
    if not isinstance(values, list) or len(values) != length:
        raise ValueError(
            f"{where}: {name!r} must be a list with 0 or 1 for each of its {length} words; found {shape_of(values)}."
        )
    for value in values:
        if value not in (0, 1):
            raise ValueError(f"{where}: {name!r} must have 0 or 1 for each word; found {shorten(value)}.")
    return [place for place, value in enumerate(values) if value]


def _text(record: Record, name: str, default: str) -> str:
    value = record.get(name)
    return default if value is None else str(value)
