"""Parses in a folder: equal to fresh ones, shared by processes, and never in the way of a run."""

import multiprocessing
import sqlite3

import pytest
import spacy

from hf_localattn.files import atomic_write
from hf_localattn.installed import parse_store
from hf_localattn.installed.parse_store import FILE, VARIABLE, key_of
from hf_localattn.models import sla_parser
from hf_localattn.models.sla_parser import load_pipeline, parse
from tests.tiny_parser import SENTENCES, record_parses, tiny_parser

TEXTS = [sentence for sentence, _ in SENTENCES]
MIXED = [*TEXTS, tuple(TEXTS[0].split()), ("a", " ", "b"), "", "  "]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Another process, as far as these modules can tell, with a folder for its parses."""
    monkeypatch.setattr(sla_parser, "_cache", sla_parser.ParseCache())
    monkeypatch.setattr(parse_store, "_failed", set())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "parses"))
    return tmp_path / "parses"


def forget():
    sla_parser._cache.clear()
    parse_store._failed.clear()


def contents(texts, words="parser", parser=None):
    found = parse(texts, parser or tiny_parser(), words)
    parts = ((one.count, one.heads, one.starts, one.ends) for one in found)
    return [[number, *(None if part is None else list(part) for part in others)] for number, *others in parts]


def number_of_parses(folder):
    with sqlite3.connect(folder / FILE) as connection:
        return connection.execute("SELECT count(*) FROM parses").fetchone()[0]


@pytest.mark.parametrize("words", ["parser", "whitespace"])
def test_stored_parses_equal_fresh_ones(words, folder, monkeypatch):
    calls = record_parses(monkeypatch, load_pipeline(tiny_parser()))
    monkeypatch.delenv(VARIABLE)
    fresh = contents(MIXED, words)
    assert not folder.exists()
    monkeypatch.setenv(VARIABLE, str(folder))
    for _ in range(2):
        forget()
        calls.clear()
        assert contents(MIXED, words) == fresh
    assert not any(calls)
    assert contents([*MIXED, "A new text."], words)[:-1] == fresh
    assert [len(texts) for texts in calls if texts] == [1]


def retrained(folder):
    """Save the pipeline with other weights, but the same name, version and metadata."""
    pipeline = spacy.load(tiny_parser())
    for node in pipeline.get_pipe("parser").model.walk():
        for name in filter(node.has_param, node.param_names):
            node.set_param(name, -node.get_param(name))
    pipeline.to_disk(folder)
    return str(folder)


def test_what_changes_a_parse_is_in_its_key_but_no_text_in_the_file(folder, tmp_path):
    contents(["The secret cat sleeps."])
    contents(["The secret cat sleeps."], "whitespace")
    contents([tuple(TEXTS[0].split())])
    contents(TEXTS[:1], parser=retrained(tmp_path / "retrained"))
    assert number_of_parses(folder) == 4
    assert b"secret" not in (folder / FILE).read_bytes()
    keys = [("a b",), ("a", "b"), "a b", ("ab",), ("a", "b", "")]
    assert len({key_of(text, "parser", "x") for text in keys} | {key_of("a b", "parser", "y")}) == 6


def _parse_some(number):
    contents([f"The cat {number} {index} sleeps." for index in range(20)])


def test_processes_share_a_folder_and_forked_ones_open_their_own_connection(folder):
    contents(TEXTS)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_parse_some, range(4), chunksize=1)
    assert number_of_parses(folder) == len(set(TEXTS)) + 80
    contents(["The cat sleeps here."])
    assert number_of_parses(folder) == len(set(TEXTS)) + 81


def _other_database(folder):
    folder.mkdir()
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("CREATE TABLE parses (something TEXT)")


def _damaged_pages(folder):
    contents(TEXTS)
    forget()
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


BROKEN = {
    "a file": lambda folder: folder.write_text("a file"),
    "no database": lambda folder: atomic_write(folder / FILE, "no database" * 1000),
    "another table": _other_database,
    "damaged pages": _damaged_pages,
}


@pytest.mark.parametrize("break_it", BROKEN.values(), ids=BROKEN)
def test_a_broken_cache_is_left_out_with_one_warning(break_it, folder, caplog, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    fresh = contents(TEXTS)
    monkeypatch.setenv(VARIABLE, str(folder))
    forget()
    break_it(folder)
    forget()
    assert contents(TEXTS) == fresh
    sla_parser._cache.clear()
    assert contents(TEXTS) == fresh
    assert [VARIABLE in record.message for record in caplog.records] == [True]
