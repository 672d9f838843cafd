"""Folders change wholly or not at all."""

import pytest

from hf_localattn.files import replaced_whole, write_whole


def test_a_save_replaces_files_whole_or_not_at_all(tmp_path):
    (tmp_path / "model-00001-of-00002.safetensors").write_text("old")
    (tmp_path / "config.json").write_text("old")

    def interrupted():
        with replaced_whole(tmp_path) as staging:
            (tmp_path / staging / "config.json").write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        interrupted()
    assert (tmp_path / "config.json").read_text() == "old"
    with replaced_whole(tmp_path) as staging:
        for name in ("config.json", "model.safetensors"):
            (tmp_path / staging / name).write_text("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "config.json": "new",
        "model.safetensors": "new",
    }


def test_a_new_folder_disappears_with_its_failure(tmp_path):
    with pytest.raises(RuntimeError), replaced_whole(tmp_path / "new"):
        raise RuntimeError("disk full")
    assert not list(tmp_path.iterdir())


def test_a_text_replaces_another_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "texts.txt"
    write_whole(path, "old é")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old é"
    write_whole(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
