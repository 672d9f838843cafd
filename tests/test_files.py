"""Folders change wholly or not at all."""

import errno
import os
from pathlib import Path

import pytest
from safetensors import SafetensorError

from hf_localattn.files import CannotWrite, atomic_directory, atomic_write, discard, remove_leftovers, writing


def test_a_save_replaces_files_whole_or_not_at_all(tmp_path):
    (tmp_path / "model-00001-of-00002.safetensors").write_text("old")
    (tmp_path / "config.json").write_text("old")

    def interrupted():
        with atomic_directory(tmp_path) as staging:
            (tmp_path / staging / "config.json").write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        interrupted()
    assert (tmp_path / "config.json").read_text() == "old"
    with atomic_directory(tmp_path) as staging:
        for name in ("config.json", "model.safetensors"):
            (tmp_path / staging / name).write_text("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "config.json": "new",
        "model.safetensors": "new",
    }


def test_a_new_folder_disappears_with_its_failure(tmp_path):
    with pytest.raises(RuntimeError), atomic_directory(tmp_path / "new"):
        raise RuntimeError("disk full")
    assert not list(tmp_path.iterdir())


def test_a_text_replaces_another_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "texts.txt"
    atomic_write(path, "old é")
    with pytest.raises(UnicodeEncodeError):
        atomic_write(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old é"
    atomic_write(path, "new")
    assert path.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_without_room_the_path_the_cause_and_the_remedy_are_told(tmp_path, monkeypatch, number):
    atomic_write(tmp_path / "a.json", "old")

    def full(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", full)
    remedy = r"Make room \(\d+\.\d GB are free there\)"
    if number == errno.EFBIG:
        remedy = "Raise the limit on the size of files .*"
    message = rf"Cannot write {tmp_path}/a.json: {os.strerror(number)}. {remedy}, and repeat the command"
    with pytest.raises(CannotWrite, match=message):
        atomic_write(tmp_path / "a.json", "new")
    with (
        pytest.raises(CannotWrite, match=f"Cannot write {tmp_path}/new: "),
        atomic_directory(tmp_path / "new") as staging,
    ):
        Path(staging, "b").touch()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.json": "old"}


def test_other_errors_are_not_about_room(tmp_path):
    for error in (KeyError("a"), OSError("no connection"), PermissionError(errno.EACCES, "no"), RuntimeError("shape")):
        with pytest.raises(type(error)) as raised, writing(tmp_path):
            raise error
        assert raised.value is error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 59"), "torch could not write"),
        (SafetensorError("Error while serializing: I/O error: ... (os error 28)"), "No space left on device"),
    ],
    ids=["torch", "safetensors"],
)
def test_what_libraries_say_of_a_full_disk(tmp_path, error, cause):
    """torch does not give the cause, safetensors only its number."""
    with pytest.raises(CannotWrite, match=f"Cannot write {tmp_path}: {cause}"), writing(tmp_path):
        raise error


def test_what_a_killed_process_has_left_is_removed_and_nothing_else(tmp_path):
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
