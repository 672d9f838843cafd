"""Files are replaced whole or not at all."""

from contextlib import suppress

import pytest

from hf_localattn.files import atomic_directory, atomic_write, discard, remove_leftovers


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
