import json
import os

import pytest
import torch
from safetensors.torch import save_file
from transformers.trainer_utils import rotate_checkpoints

from hf_localattn.training.output_folder import (
    check_same_model,
    last_complete_checkpoint,
    mark_finished,
    mark_unfinished,
    prepare_output_folder,
    remove_older_checkpoints,
)
from tests.models.tiny import tiny_model


def checkpoint(folder, step, without=None):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_file({"weight": torch.zeros(3)}, path / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"state": torch.zeros(3)}, path / name)
    for name in ("config.json", "trainer_state.json"):
        (path / name).write_text("{}")
    if without is not None:
        (path / without).unlink()
    return path


def test_a_fresh_folder_starts_afresh(tmp_path):
    assert prepare_output_folder(tmp_path / "new", None) is None
    for name in (".gitignore", "train.log"):
        (tmp_path / name).touch()
    (tmp_path / "runs").mkdir()
    (tmp_path / "_saving-x").mkdir()  # of a run that was killed while saving
    assert prepare_output_folder(tmp_path, None) is None
    assert not (tmp_path / "_saving-x").exists()


def test_a_folder_with_something_else_is_in_the_way(tmp_path):
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"is not empty \(a, b, c and 1 more\) .* Choose another folder, or empty"):
        prepare_output_folder(tmp_path, None)
    with pytest.raises(ValueError, match="a is a file; choose a folder"):
        prepare_output_folder(tmp_path / "a", None)


def test_an_unfinished_run_goes_on_and_a_finished_one_is_in_the_way(tmp_path, caplog):
    checkpoint(tmp_path, 9)
    last = checkpoint(tmp_path, 10)
    assert prepare_output_folder(tmp_path, None) == str(last)
    assert "Resuming from" in caplog.text
    (tmp_path / "trainer_state.json").write_text("{}")
    with pytest.raises(ValueError, match=f"holds a finished run.*--resume_from_checkpoint {last}"):
        prepare_output_folder(tmp_path, None)
    for wanted in (True, "true", "True", str(last)):
        assert prepare_output_folder(tmp_path, wanted) == str(last)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("model.safetensors", "no weights"),
        ("optimizer.pt", "no optimizer state"),
        ("scheduler.pt", "no scheduler.pt"),
        ("rng_state.pth", "no random states"),
        ("trainer_state.json", "no complete trainer_state.json"),
    ],
)
def test_an_incomplete_checkpoint_is_moved_aside(tmp_path, caplog, part, reason):
    good = checkpoint(tmp_path, 2)
    bad = checkpoint(tmp_path, 4, without=part)
    with pytest.raises(ValueError, match=f"checkpoint-4 is not a complete checkpoint: .*{reason}"):
        prepare_output_folder(tmp_path, str(bad))
    assert last_complete_checkpoint(tmp_path) == str(good)
    assert reason in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_incomplete-checkpoint-4", "checkpoint-2"]
    checkpoint(tmp_path, 4, without=part)  # a second time
    assert last_complete_checkpoint(tmp_path) == str(good)


def test_a_state_cut_short_is_incomplete(tmp_path):
    path = checkpoint(tmp_path, 4) / "trainer_state.json"
    path.write_text(json.dumps({"log_history": []})[:-1])
    assert last_complete_checkpoint(tmp_path) is None
    assert prepare_output_folder(tmp_path, None) is None  # what is moved aside is not in the way
    with pytest.raises(ValueError, match="holds no complete checkpoint"):
        prepare_output_folder(tmp_path, True)


def test_a_checkpoint_is_told_apart_by_fields_but_not_by_what_training_learns(tmp_path):
    model = tiny_model("cool")
    model.save_pretrained(tmp_path)
    check_same_model(tmp_path, model)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "eos_token_id": 5, "dtype": "bfloat16"}))
    check_same_model(tmp_path, model)
    (tmp_path / "config.json").write_text(json.dumps({**config, "outlook_softmax": "window"}))
    with pytest.raises(ValueError, match="its outlook_softmax is 'window', but now it is 'feature'"):
        check_same_model(tmp_path, model)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_incomplete(tmp_path, caplog, name, kept):
    good, bad = checkpoint(tmp_path, 2), checkpoint(tmp_path, 4)
    content = (bad / name).read_bytes()
    (bad / name).write_bytes(content[: int(kept * len(content))])
    assert prepare_output_folder(tmp_path, None) == str(good)
    assert f"its {name} is damaged" in caplog.text


def test_a_shard_that_is_not_there_is_missed(tmp_path):
    path = checkpoint(tmp_path, 4)
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"not a complete checkpoint: it has no model-2.safetensors"):
        prepare_output_folder(tmp_path, str(path))


def test_a_run_that_was_killed_when_all_was_trained_is_scored(tmp_path, caplog):
    checkpoint(tmp_path, 4)
    mark_unfinished(tmp_path)
    (tmp_path / "trainer_state.json").write_text("{}")
    assert prepare_output_folder(tmp_path, None) == str(tmp_path)
    assert "is trained, but not evaluated" in caplog.text
    assert prepare_output_folder(tmp_path, str(tmp_path)) == str(tmp_path)
    mark_finished(tmp_path)
    with pytest.raises(ValueError, match="holds a finished run"):
        prepare_output_folder(tmp_path, None)
    mark_unfinished(tmp_path)  # trained further it stays finished, as nobody can tell how far that came
    with pytest.raises(ValueError, match="holds a finished run"):
        prepare_output_folder(tmp_path, None)


def test_what_a_killed_final_save_has_left_is_not_in_the_way(tmp_path):
    mark_unfinished(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert prepare_output_folder(tmp_path, None) is None


def test_one_process_of_several_tidies_up(tmp_path):
    good, bad = checkpoint(tmp_path, 2), checkpoint(tmp_path, 4, without="trainer_state.json")
    (tmp_path / "_saving-x").mkdir()
    assert prepare_output_folder(tmp_path, None, tidy=False) == str(good)
    assert bad.exists()
    assert (tmp_path / "_saving-x").exists()


@pytest.mark.parametrize(
    ("limit", "best", "left"),
    [
        (None, None, {1, 2, 3, 4}),
        (2, None, {3, 4}),
        (1, None, {4}),
        (1, 2, {2, 4}),
        (3, 1, {1, 3, 4}),
        (9, 1, {1, 2, 3, 4}),
    ],
)
def test_old_checkpoints_are_removed_as_trainer_does(tmp_path, limit, best, left):
    for age, step in enumerate((1, 2, 3, 4)):
        os.utime(checkpoint(tmp_path / "ours", step), (age, age))
        os.utime(checkpoint(tmp_path / "theirs", step), (age, age))
    named = {folder: best and str(tmp_path / folder / f"checkpoint-{best}") for folder in ("ours", "theirs")}
    remove_older_checkpoints(tmp_path / "ours" / "checkpoint-4", limit, named["ours"])
    rotate_checkpoints(str(tmp_path / "theirs"), limit, named["theirs"], use_mtime=True)
    for folder in ("ours", "theirs"):
        assert {path.name for path in (tmp_path / folder).iterdir()} == {f"checkpoint-{step}" for step in left}
