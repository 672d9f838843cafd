import json

import pytest

from hf_localattn.training.output_folder import check_same_model, last_complete_checkpoint, prepare_output_folder
from tests.models.tiny import tiny_model


def checkpoint(folder, step, without=None):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"):
        if name != without:
            (path / name).write_text("{}")
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
        ("trainer_state.json", "no whole trainer_state.json"),
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
    with pytest.raises(ValueError, match="its outlook_softmax is 'window', this one's is 'feature'"):
        check_same_model(tmp_path, model)
