"""The output folder of a run: new, in use for something else, killed, finished."""

import json

import pytest

from hf_localattn.training.output_folder import mark_unfinished, prepare_output_folder


def checkpoint(folder, step, state="{}"):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "optimizer.pt").touch()
    if state is not None:
        (path / "trainer_state.json").write_text(state)
    return path


def test_leftovers_are_removed_and_other_files_are_in_the_way(tmp_path):
    for name in (".gitignore", "train.log"):
        (tmp_path / name).touch()
    for name in ("runs", "_saving-x"):  # the second of a killed run
        (tmp_path / name).mkdir()
    prepare_output_folder(tmp_path, None, tidy=False)
    assert (tmp_path / "_saving-x").exists()
    assert prepare_output_folder(tmp_path, None) is None
    assert not (tmp_path / "_saving-x").exists()
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"a, b, c and 1 more"):
        prepare_output_folder(tmp_path, None)


def test_a_finished_run_stays_finished_while_it_is_trained_further(tmp_path):
    (tmp_path / "trainer_state.json").write_text("{}")
    mark_unfinished(tmp_path)
    with pytest.raises(ValueError, match="finished run"):
        prepare_output_folder(tmp_path, None)


@pytest.mark.parametrize("state", [None, "", json.dumps({"log_history": []})[:-1]], ids=["none", "empty", "cut"])
def test_a_half_written_checkpoint_is_passed_over(tmp_path, state, caplog):
    half = checkpoint(tmp_path, 12, state)
    mark_unfinished(tmp_path)
    assert prepare_output_folder(tmp_path, None) is None
    for wanted in (True, str(half)):
        with pytest.raises(ValueError, match="whole checkpoint"):
            prepare_output_folder(tmp_path, wanted)
    checkpoint(tmp_path, 9)
    last = str(checkpoint(tmp_path, 10))
    for wanted in (None, True, "True", last):
        assert prepare_output_folder(tmp_path, wanted) == last
    assert str(half) in caplog.text


def test_a_sharded_checkpoint_of_another_folder_is_refused(tmp_path):
    sharded = checkpoint(tmp_path / "theirs", 2)
    (sharded / "optimizer_0").mkdir()
    (sharded / "optimizer_0" / ".metadata").touch()
    assert prepare_output_folder(tmp_path / "theirs", str(sharded)) == str(sharded)
    with pytest.raises(ValueError, match="unpickles"):
        prepare_output_folder(tmp_path / "ours", str(sharded))
