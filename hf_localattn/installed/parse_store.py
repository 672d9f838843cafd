"""Parses in a folder, shared by processes and kept between runs.

The environment variable `HF_LOCALATTN_PARSE_CACHE` names the folder. It has an SQLite database with the heads and
offsets of words under digests of pipeline and text, so it holds no texts, and nothing in it is run or unpickled. A
database that fails never stops a run: it is left out after one warning.
"""

import json
import os
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from transformers.utils import logging

from hf_localattn.models.sla_alignment import Words

logger = logging.get_logger(__name__)

VARIABLE = "HF_LOCALATTN_PARSE_CACHE"
"""Environment variable with the folder of the database. If it is unset or empty, no parse is stored."""

FILE = "parses-3.sqlite"
"""Name of the database. Its number is raised when texts are converted to words in another way."""

SECONDS_TO_WAIT = 60

Text = str | tuple[str, ...]

_failed: set[str] = set()
_digests: dict[tuple[str, int], str] = {}


def read_parses(texts: Sequence[Text], words: str, parser: str, pipeline: Any) -> dict[Text, Words]:
    """Return the stored parses among those of some texts, split into words as `words` says, by a pipeline."""

    def read(database: sqlite3.Connection) -> dict[Text, Words]:
        query = "SELECT words FROM parses WHERE key = ?"
        parses = {}
        for text in texts:
            for (content,) in database.execute(query, [key_of(text, words, digest)]):
                parses[text] = decode(content)
        return parses

    digest = _digest(parser, pipeline)
    return _with_database(read) or {}


def write_parses(parses: Mapping[Text, Words], words: str, parser: str, pipeline: Any) -> None:
    """Store parses of texts in one transaction. The other arguments are those of `read_parses`."""
    digest = _digest(parser, pipeline)
    rows = [(key_of(text, words, digest), encode(parse)) for text, parse in parses.items()]
    _with_database(lambda database: database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows))


def key_of(text: Text, words: str, pipeline: str) -> bytes:
    """Return the key of a parse, from the text, the way to split it and the digest of the pipeline."""
    return sha256(json.dumps([pipeline, words, text]).encode()).digest()


def encode(words: Words) -> str:
    """Return a parse as a list in JSON: the number of words, and their heads, starts and ends or null."""
    columns = (words.heads, words.starts, words.ends)
    return json.dumps([words.count, *(None if column is None else list(column) for column in columns)])


def decode(content: str) -> Words:
    """Return the parse that `encode` has written."""
    count, *columns = json.loads(content)
    return Words(count, *(None if column is None else array("i", column) for column in columns))


def _digest(parser: str, pipeline: Any) -> str:
    """Return a digest of a pipeline with its weights: names and versions do not tell all pipelines apart."""
    key = (parser, id(pipeline))
    if os.environ.get(VARIABLE) and key not in _digests:
        import spacy

        content = pipeline.to_bytes(exclude=["vocab"])  # metadata describe the vectors
        _digests[key] = sha256(spacy.__version__.encode() + content).hexdigest()
    return _digests.get(key, "")


def _with_database(run: Callable[[sqlite3.Connection], Any]) -> Any:
    """Return what a function returns for the database that the environment names; None if that cannot be used.

    Each call opens the database, since a connection must not be shared by threads or with forked processes.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder or folder in _failed:
        return None
    try:
        os.makedirs(folder, exist_ok=True)
        # SQLite's default journal, since a write-ahead log does not work on network file systems.
        with closing(sqlite3.connect(Path(folder, FILE), timeout=SECONDS_TO_WAIT)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, words TEXT) WITHOUT ROWID")
            return run(database)
    except (OSError, sqlite3.Error) as error:
        _failed.add(folder)
        logger.warning("%s=%s cannot be used as a cache of parses (%s): it is left out.", VARIABLE, folder, error)
        return None
