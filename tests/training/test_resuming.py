"""What a resumed run takes from its checkpoint, beside what Trainer does; tests/faults has whole runs."""

import json

import pytest

from hf_localattn.training.resuming import LossSoFar, best_sibling


def checkpoint(folder, step, best=None):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(json.dumps({"best_model_checkpoint": best}))
    return path


def test_the_loss_is_read_as_it_was_written(tmp_path):
    loss = LossSoFar(0.1 + 0.2, 1 / 3, 7)
    loss.save(tmp_path, 1)
    assert LossSoFar.load(tmp_path, 1) == loss
    assert LossSoFar.load(tmp_path, 0) is None
    assert loss.mean(3) == (0.1 + 0.2 + 1 / 3) / 3


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"logged": "x", "since": 0, "last_logged": 0}', "null"])
def test_a_file_that_is_something_else_counts_as_none(tmp_path, content):
    (tmp_path / "training_loss_0.json").write_text(content)
    assert LossSoFar.load(tmp_path, 0) is None


def test_the_best_checkpoint_is_beside_this_one_wherever_that_is(tmp_path):
    """A folder may have been moved, and a state may name any path."""
    last = checkpoint(tmp_path / "here", 4, best="/elsewhere/out/checkpoint-2")
    assert best_sibling(last) is None
    checkpoint(tmp_path / "here", 2)
    assert best_sibling(last) == str(tmp_path / "here" / "checkpoint-2")
    assert best_sibling(checkpoint(tmp_path / "here", 5)) is None
    assert best_sibling(checkpoint(tmp_path / "here", 6, best=str(tmp_path / "here" / ".."))) is None
