"""Parses in a folder, shared by processes and kept between runs.

The environment variable `HF_LOCALATTN_PARSE_CACHE` names the folder. Parses are stored in an SQLite database as plain
integers under digests of pipeline and text, so the file has no texts, and nothing in it is run or unpickled. A cache
that fails never stops a run: it is left out after one warning.
"""

import os
import sqlite3
import sys
from array import array
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from typing import Any

from transformers.utils import logging

from hf_localattn.models.sla_alignment import Words

logger = logging.get_logger(__name__)

VARIABLE = "HF_LOCALATTN_PARSE_CACHE"
"""Environment variable with the folder of the cache. If it is unset or empty, no parse is stored."""

LAYOUT = 2
"""Number of the file's layout, raised when it changes or when texts are converted to words in another way."""

SECONDS_TO_WAIT = 60
KEYS_PER_QUERY = 500

Text = str | tuple[str, ...]

# A connection must not be used in another thread, nor in a process forked later. None stands for a cache that failed.
_connections: dict[tuple[str, int, int], sqlite3.Connection | None] = {}
_warned: set[str] = set()
_digests: dict[tuple[str, int], str] = {}


def open_store() -> sqlite3.Connection | None:
    """Return the cache that the environment names; None if it names none, or the cache cannot be used."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        return None
    source = (folder, os.getpid(), get_ident())
    if source not in _connections:
        try:
            os.makedirs(folder, exist_ok=True)
            # Processes write one after another. The journal is SQLite's default one, since a write-ahead log does not
            # work on network file systems.
            path = Path(folder, f"parses-{LAYOUT}.sqlite")
            connection = sqlite3.connect(path, timeout=SECONDS_TO_WAIT, isolation_level=None)
            connection.execute("CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, words BLOB) WITHOUT ROWID")
            _connections[source] = connection
        except (OSError, sqlite3.Error) as error:
            _leave_out(error)
    return _connections[source]


def read_parses(keys: Mapping[Text, bytes]) -> dict[Text, Words]:
    """Return the stored parses of texts.

    Args:
        keys: Keys of the texts, from `keys_of`.
    """
    store, texts = open_store(), list(keys)
    found: dict[Text, Words] = {}
    try:
        for start in range(0, len(texts) if store is not None else 0, KEYS_PER_QUERY):
            asked = {keys[text]: text for text in texts[start : start + KEYS_PER_QUERY]}
            query = f"SELECT key, words FROM parses WHERE key IN ({', '.join('?' * len(asked))})"
            assert store is not None
            found |= {asked[key]: decode(words, asked[key]) for key, words in store.execute(query, list(asked))}
    except sqlite3.Error as error:
        _leave_out(error)
    return found


def write_parses(keys: Mapping[Text, bytes], parses: Mapping[Text, Words]) -> None:
    """Store parses of texts in one transaction.

    Args:
        keys: Keys of the texts, from `keys_of`.
        parses: Parses of the same texts.
    """
    store = open_store()
    if store is None or not parses:
        return
    try:
        with store:
            store.execute("BEGIN IMMEDIATE")
            rows = [(keys[text], encode(words)) for text, words in parses.items()]
            store.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)
    except sqlite3.Error as error:
        _leave_out(error)


def keys_of(texts: Sequence[Text], words: str, parser: str, pipeline: Any) -> dict[Text, bytes]:
    """Return the key of each text, with a digest of the pipeline and its weights: versions do not tell all apart.

    Args:
        texts: Strings, or tuples of words.
        words: The way to split strings into words.
        parser: Name or folder of the pipeline.
        pipeline: The pipeline.
    """
    source = (parser, id(pipeline))
    if source not in _digests:
        import spacy

        content = pipeline.to_bytes(exclude=["vocab"])  # metadata describe the vectors
        _digests[source] = sha256(spacy.__version__.encode() + content).hexdigest()
    return {text: key_of(text, words, _digests[source]) for text in texts}


def key_of(text: Text, words: str, pipeline: str) -> bytes:
    """Return the key of a parse.

    Args:
        text: A string, or a tuple of words.
        words: The way to split strings into words.
        pipeline: Digest of the pipeline.
    """
    given = "text" if isinstance(text, str) else "words"
    parts = (pipeline, sys.byteorder, given, words, *([text] if isinstance(text, str) else text))
    key = sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        key.update(len(content).to_bytes(8, "big") + content)
    return key.digest()


def encode(words: Words) -> bytes:
    """Return the bytes of a parse: the number of words, and their heads, starts and ends, as 32-bit integers."""
    columns = (words.heads, words.starts, words.ends)
    return array("i", [words.number, *(value for column in columns if column for value in column)]).tobytes()


def decode(content: bytes, text: Text) -> Words:
    """Return the parse of a text from its bytes."""
    values = array("i", content)
    number = values[0]
    columns = [values[1 + place * number : 1 + (place + 1) * number] for place in range(3)]
    return Words(number, *columns) if isinstance(text, str) else Words(number, columns[0])


def _leave_out(error: Exception) -> None:
    """Use no cache in this thread from now on, and warn once."""
    folder = os.environ[VARIABLE]
    _connections[folder, os.getpid(), get_ident()] = None
    if folder not in _warned:
        _warned.add(folder)
        logger.warning("%s=%s cannot be used as a cache of parses (%s): it is left out.", VARIABLE, folder, error)
