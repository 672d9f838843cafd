"""Files are replaced whole, a folder belongs to one process at a time, and names and contents are checked."""

import multiprocessing
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hf_localattn import files
from hf_localattn.families import FAMILIES
from hf_localattn.files import LOCK, atomic_directory, atomic_write, claimed, discard, remove_leftovers
from hf_localattn.names import NO_FAMILY, SAMPLES, family_names, find_family, find_files
from hf_localattn.parsing import parse_yaml, read_json
from tests.script_helpers import load_main

FORK = multiprocessing.get_context("fork")


def test_a_folder_is_replaced_file_by_file_or_not_at_all(tmp_path):
    (tmp_path / "model-00001-of-00002.safetensors").write_text("old")
    atomic_write(tmp_path / "config.json", "old")
    for folder in (tmp_path, tmp_path / "new"):
        with suppress(OSError), atomic_directory(folder) as staging:
            (folder / staging / "config.json").write_text("ne")
            raise OSError("disk full")
    assert (tmp_path / "config.json").read_text() == "old"
    assert not (tmp_path / "new").exists()
    with atomic_directory(tmp_path) as staging:
        for name in ("config.json", "model.safetensors"):
            (tmp_path / staging / name).write_text("new")
    new = {"config.json": "new", "model.safetensors": "new"}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == new


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "new" / "texts.txt"
    atomic_write(path, "old é")
    with pytest.raises(UnicodeEncodeError):
        atomic_write(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old é"
    atomic_write(path, b"new")
    assert [one.read_text() for one in path.parent.iterdir()] == ["new"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    for name in ("_saving-x/a", "out/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "_saving-c.json.7").touch()
    (tmp_path / "_saving-link").symlink_to(tmp_path / "out")
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b", "out"]
    discard(tmp_path / "out")
    discard(tmp_path / "out")
    assert not list(tmp_path.iterdir())


RUN = ["--family", "cool", "--backbone", "tiny", "--train_file", "sample:reviews.csv", "--do_train", "--use_cpu"]


def hold(folder, has_it, may_end):
    with claimed(folder):
        has_it.set()
        may_end.wait()


# Whoever has the claim makes a file, which must not be there, and removes it.
COMPETE = """
import os, runpy, sys
claimed = runpy.run_path(sys.argv[1])["claimed"]
won = 0
while won < 40:
    try:
        with claimed(sys.argv[2]):
            os.close(os.open(sys.argv[2] + "-taken", os.O_CREAT | os.O_EXCL))
            os.remove(sys.argv[2] + "-taken")
            won += 1
    except ValueError:
        pass
"""


def test_a_second_process_is_refused(tmp_path, capsys):
    folder, (has_it, may_end) = tmp_path / "out", (FORK.Event(), FORK.Event())
    process = FORK.Process(target=hold, args=(folder, has_it, may_end))
    process.start()
    has_it.wait()
    with pytest.raises(SystemExit):
        load_main("run_glue")([*RUN, "--output_dir", str(folder)])
    may_end.set()
    process.join()
    assert f"{folder} is in use by another process" in capsys.readouterr().err
    assert not folder.exists(), "it was made for nothing"


def test_one_process_claims_a_folder_twice_and_what_it_made_goes_if_nothing_is_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with suppress(KeyError), claimed("a/b"):
        with claimed(tmp_path / "a" / "b"):
            pass
        assert (tmp_path / "a" / "b" / LOCK).is_file()
        raise KeyError
    assert not list(tmp_path.iterdir())
    with claimed("a/b"):
        Path("a/c").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "c"]


def test_never_two_at_a_time(tmp_path):
    """While the folder and its lock are made and removed all the time."""
    command = [sys.executable, "-I", "-c", COMPETE, files.__file__, str(tmp_path / "out")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[1] for process in processes] == [""] * 4


def test_neither_a_file_nor_a_link_is_claimed(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "folder" / LOCK
    victim.write_text("mine")
    link.parent.mkdir()
    link.symlink_to(victim)
    for folder in (victim, link.parent):
        with pytest.raises((ValueError, OSError), match=r"victim is a file|symbolic links"), claimed(folder):
            pass
    assert victim.read_text() == "mine"


def test_a_family_may_be_given_by_its_first_part():
    assert family_names() == sorted(FAMILIES)
    names = {"sla": "sla-bert", "sla-bert": "sla-bert", "oa": "oa-xlnet", "sam": "sam-roberta", "cool": "cool"}
    assert {name: find_family(name) for name in names} == names
    assert find_family(NO_FAMILY, NO_FAMILY) == NO_FAMILY
    for name in (NO_FAMILY, "col"):
        with pytest.raises(ValueError, match=rf"'{name}'.*cool, oa-xlnet"):
            find_family(name)


def test_files_are_found_in_the_folder_or_among_the_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one,two.csv").write_text("")
    Path("three.csv").write_text("")
    assert find_files("one,two.csv") == "one,two.csv"
    assert find_files("three.csv, sample:jokes.csv") == f"three.csv,{SAMPLES / 'jokes.csv'}"
    with pytest.raises(FileNotFoundError, match=r"four\.csv"):
        find_files("three.csv,four.csv")
    with pytest.raises(FileNotFoundError, match=r"'sample:joke'.* negation/starsem.txt"):
        find_files("sample:joke")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a":\n 1,}', "x.json, line 2, column"),
        ('"\\ud800"', "x.json, line 1: .*surrogates"),
        ("1" * 5000, "x.json, line 1: .*digits"),
        ("[" * 100_000, "x.json, line 1: .*recursion"),
        ("[1]", "x.json is a list"),
    ],
    ids=["syntax", "surrogate", "digits", "nested", "no-object"],
)
def test_invalid_json(text, place, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=place):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("text", ["a: [1", "!!bool x", "!!python/name:os.system", "&a [*a]"])
def test_invalid_yaml(text):
    with pytest.raises(ValueError, match="card: "):
        parse_yaml(text, "card")
