"""Files are replaced whole or not at all. A folder belongs to one process at a time, to none when that has ended."""

import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from hf_localattn import claims
from hf_localattn.claims import LOCK, InUse, claimed
from hf_localattn.files import atomic_directory, atomic_write, discard, remove_leftovers
from tests.script_helpers import load_main


def test_a_folder_is_replaced_file_by_file(tmp_path):
    (tmp_path / "model-00001-of-00002.safetensors").write_text("old")
    atomic_write(tmp_path / "config.json", "old")
    with suppress(OSError), atomic_directory(tmp_path) as staging:
        (tmp_path / staging / "config.json").write_text("ne")
        raise OSError("disk full")
    assert (tmp_path / "config.json").read_text() == "old"
    with atomic_directory(tmp_path) as staging:
        for name in ("config.json", "model.safetensors"):
            (tmp_path / staging / name).write_text("new")
    new = {"config.json": "new", "model.safetensors": "new"}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == new


def test_a_failure_leaves_no_new_folder(tmp_path):
    with pytest.raises(RuntimeError), atomic_directory(tmp_path / "new"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


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

# The module alone: it takes no second to start.
HOLD = """
import runpy, sys
claimed = runpy.run_path(sys.argv[1])["claimed"]
with claimed(sys.argv[2]):
    print("has it", flush=True)
    sys.stdin.readline()
"""

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


@contextmanager
def holder(folder):
    """Another process that has claimed a folder."""
    command = [sys.executable, "-I", "-c", HOLD, claims.__file__, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "has it\n"
        yield process
        process.kill()


def test_a_second_process_is_refused(tmp_path, capsys):
    with holder(tmp_path / "out") as process:
        with pytest.raises(InUse, match=f"{tmp_path}/out is in use"), claimed(tmp_path / "out"):
            pass
        with pytest.raises(SystemExit):
            load_main("run_glue")([*RUN, "--output_dir", str(tmp_path / "out")])
        assert "is in use by another process" in capsys.readouterr().err
        process.communicate("\n")
    assert not (tmp_path / "out").exists(), "it was made for nothing"


def test_a_killed_process_leaves_no_claim(tmp_path):
    with holder(tmp_path / "out") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / "out" / LOCK).is_file()
        with claimed(tmp_path / "out"):
            (tmp_path / "out" / "result").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["result"]


def test_one_process_may_claim_a_folder_several_times(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    with claimed("out"):
        with claimed(tmp_path / "out"):
            pass
        assert (tmp_path / "out" / LOCK).is_file()
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_folders_that_were_made_go_unless_something_is_in_them(tmp_path):
    with pytest.raises(KeyError), claimed(tmp_path / "a" / "b"):
        raise KeyError
    assert not list(tmp_path.iterdir())
    with claimed(tmp_path / "a" / "b"):
        (tmp_path / "a" / "c").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "c"]


def test_never_two_at_a_time(tmp_path):
    """While the folder and its lock are made and removed all the time."""
    command = [sys.executable, "-I", "-c", COMPETE, claims.__file__, str(tmp_path / "out")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[1] for process in processes] == [""] * 4


def test_neither_a_file_nor_a_link_is_claimed(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "folder" / LOCK
    victim.write_text("mine")
    with pytest.raises(ValueError, match="victim is a file"), claimed(victim):
        pass
    link.parent.mkdir()
    for target in (victim, tmp_path / "nowhere" / "file"):
        link.symlink_to(target)
        with pytest.raises(ValueError, match="link"), claimed(link.parent):
            pass
        link.unlink()
    assert victim.read_text() == "mine"
