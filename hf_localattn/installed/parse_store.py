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

LAYOUT = 1
"""Number of the file's layout, raised when it changes or when texts are converted to words in another way."""

APPLICATION = 0x4C415031
"""Application id in the header of the file, which tells it from other databases."""

SECONDS_TO_WAIT = 60
KEYS_PER_QUERY = 500

Text = str | tuple[str, ...]


class ParseStore:
    """Cache of parses in a folder.

    Processes write one after another, each a transaction. The journal is SQLite's default one, since a write-ahead log
    does not work on network file systems.

    Args:
        folder: Folder of the cache, created if necessary.

    Raises:
        OSError: If the folder cannot be created.
        sqlite3.Error: If the file is not a cache, or cannot be opened.
    """

    def __init__(self, folder: str):
        os.makedirs(folder, exist_ok=True)
        self.path = Path(folder, f"parses-{LAYOUT}.sqlite")
        self.is_writable = True
        self._connection = sqlite3.connect(self.path, timeout=SECONDS_TO_WAIT, isolation_level=None)
        if self._application() != APPLICATION:
            self._create()

    def read(self, keys: Mapping[Text, bytes]) -> dict[Text, Words]:
        """Return the stored parses of texts.

        Args:
            keys: Keys of the texts, from `key_of`.
        """
        texts = list(keys)
        found: dict[Text, Words] = {}
        for start in range(0, len(texts), KEYS_PER_QUERY):
            asked = {keys[text]: text for text in texts[start : start + KEYS_PER_QUERY]}
            query = f"SELECT key, words FROM parses WHERE key IN ({', '.join('?' * len(asked))})"
            for key, content in self._connection.execute(query, list(asked)):
                words = decode(content, asked[key])
                if words is None:
                    _warn(self.path, "has a damaged parse: such texts are parsed again")
                else:
                    found[asked[key]] = words
        return found

    def write(self, keys: Mapping[Text, bytes], parses: Mapping[Text, Words]) -> None:
        """Store parses in one transaction. If this fails, warn once and store nothing from then on.

        Args:
            keys: Keys of the texts, from `key_of`.
            parses: Parses of the same texts.
        """
        if not self.is_writable:
            return
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                rows = [(keys[text], encode(words)) for text, words in parses.items()]
                self._connection.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            self.is_writable = False
            _warn(self.path, f"cannot be written ({error}): new parses are not stored")

    def _application(self) -> int:
        return self._connection.execute("PRAGMA application_id").fetchone()[0]

    def _create(self) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._application() == APPLICATION:  # another process was faster
                return
            if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("it is another program's database")
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute("CREATE TABLE parses (key BLOB PRIMARY KEY, words BLOB NOT NULL) WITHOUT ROWID")


# A connection must not be used in another thread, nor in a process forked later.
_stores: dict[tuple[str, int, int], ParseStore | None] = {}
_warned: set[str] = set()


def open_store() -> ParseStore | None:
    """Return the cache that the environment names; None if it names none, or the cache cannot be opened."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        return None
    source = (folder, os.getpid(), get_ident())
    if source not in _stores:
        try:
            _stores[source] = ParseStore(folder)
        except (OSError, sqlite3.Error) as error:
            _stores[source] = None
            _warn(folder, f"cannot be used as a cache of parses ({error}): texts are parsed without it")
    return _stores[source]


def read_parses(keys: Mapping[Text, bytes]) -> dict[Text, Words]:
    """Return the stored parses of texts; {} without a cache."""
    store = open_store()
    if store is None:
        return {}
    try:
        return store.read(keys)
    except sqlite3.Error as error:
        _stores[os.environ[VARIABLE], os.getpid(), get_ident()] = None
        _warn(store.path, f"cannot be read ({error}): texts are parsed without it. Delete the file if it is damaged")
        return {}


def write_parses(keys: Mapping[Text, bytes], parses: Mapping[Text, Words]) -> None:
    """Store parses of texts; do nothing without a cache."""
    store = open_store()
    if store is not None and parses:
        store.write(keys, parses)


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
    return array(
        "i", [words.number, *(value for column in columns if column is not None for value in column)]
    ).tobytes()


def decode(content: object, text: Text) -> Words | None:
    """Return the parse of a text from its bytes; None if these are not a parse of this text."""
    if not isinstance(content, bytes) or not content or len(content) % array("i").itemsize:
        return None
    values = array("i", content)
    number, columns = values[0], [values[1:]]
    if isinstance(text, str):
        columns = [values[1 + column * number : 1 + (column + 1) * number] for column in range(3)]
    if number < 0 or len(values) != 1 + len(columns) * number or not _is_inside(columns[0], number):
        return None
    if not isinstance(text, str):
        return Words(number, columns[0]) if number == len(text) else None
    heads, starts, ends = columns
    bounds = [bound for span in zip(starts, ends, strict=True) for bound in span]
    return (
        Words(number, heads, starts, ends) if bounds == sorted(bounds) and _is_inside(bounds, len(text) + 1) else None
    )


def _is_inside(values: Sequence[int], end: int) -> bool:
    return not values or (min(values) >= 0 and max(values) < end)


def _warn(path: str | Path, problem: str) -> None:
    if problem not in _warned:
        _warned.add(problem)
        logger.warning("%s (%s) %s.", path, VARIABLE, problem)


_digests: dict[tuple[str, int], str] = {}


def keys_of(texts: Sequence[Text], words: str, parser: str, pipeline: Any) -> dict[Text, bytes]:
    """Return the key of each text, with a digest of the pipeline and its weights: versions do not tell all apart."""
    source = (parser, id(pipeline))
    if source not in _digests:
        import spacy

        content = pipeline.to_bytes(exclude=["vocab"])  # metadata describe the vectors
        _digests[source] = sha256(spacy.__version__.encode() + content).hexdigest()
    return {text: key_of(text, words, _digests[source]) for text in texts}
