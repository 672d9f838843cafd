"""Checkpoints during a training: when they are saved, and their code."""

import time
from types import SimpleNamespace

import pytest
from transformers import TrainerControl

from hf_localattn.training import saving

ARGUMENTS = {"saves_by_time": True, "world_size": 1, "keep_checkpoints": False, "should_save": True}


@pytest.mark.parametrize(
    ("seconds", "step", "changes", "is_saved"),
    [
        (60, 2, {}, False),
        (600, 2, {}, True),
        (60, 9, {}, False),
        (60, 9, {"keep_checkpoints": True}, True),
        (60, 2, {"keep_checkpoints": True}, False),
        (60, 2, {"saves_by_time": False}, True),
        (60, 2, {"world_size": 2}, True),
    ],
)
def test_a_checkpoint_soon_after_another_is_left_out(seconds, step, changes, is_saved, tmp_path, monkeypatch):
    args = SimpleNamespace(output_dir=tmp_path, **{**ARGUMENTS, **changes})
    callback = saving.CheckpointSaving()
    callback.on_train_begin(args, None, None)
    later = time.monotonic() + seconds
    monkeypatch.setattr(saving.time, "monotonic", lambda: later)
    control = TrainerControl(should_save=True)
    state = SimpleNamespace(global_step=step, max_steps=9)
    callback.on_step_end(args, state, control)
    assert control.should_save == is_saved
    callback.on_save(args, state, control)
    control.should_save = True
    callback.on_step_end(SimpleNamespace(**{**vars(args), "keep_checkpoints": False}), state, control)
    assert control.should_save == (not args.saves_by_time or args.world_size > 1)


def test_checkpoints_share_equal_code(tmp_path):
    for step, text in ((1, "same"), (2, "same"), (3, "other")):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "masking.py").write_text(text)
        saving.share_code(tmp_path / f"checkpoint-{step}")
    first, second, third = sorted(tmp_path.rglob("*.py"))
    assert first.samefile(second)
    assert not first.samefile(third)
    assert [path.read_text() for path in (first, second, third)] == ["same", "same", "other"]
    assert len(list(tmp_path.rglob("*"))) == 6, "nothing else is left"
