"""Checkpoints to resume from that would run code when they are read are refused, and run none."""

import os
import pickle
import shutil

import pytest
import torch
import torch.distributed.checkpoint as sharded

from hf_localattn.training.output_folder import check_harmless, prepare_output_folder
from tests.faults.commands import OUT, case, last_line, log_of

STATES = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "scaler.pt")


class Trap:
    """Makes a folder when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture(scope="module")
def killed(warm, tmp_path_factory):
    """A run that was killed after its first checkpoint."""
    folder = case(tmp_path_factory.mktemp("killed") / "qa")
    assert warm.run("qa", folder, before="os.mkdir checkpoint-4") == -9
    return folder


def set_trap(checkpoint, name, where):
    content = {} if name == "scaler.pt" else torch.load(checkpoint / name, weights_only=False)
    torch.save({**content, "more": Trap(where)}, checkpoint / name)


@pytest.mark.parametrize("more", [(), ("--resume_from_checkpoint", f"{OUT}/checkpoint-2")], ids=["found", "given"])
def test_a_run_does_not_go_on_from_it(warm, killed, tmp_path, more):
    folder = shutil.copytree(killed, tmp_path / "qa")
    set_trap(folder / OUT / "checkpoint-2", "optimizer.pt", tmp_path / "trapped")
    assert warm.run("qa", folder, *more) == 2
    assert last_line(folder) == (
        f"error: {OUT}/checkpoint-2/optimizer.pt would run code when it is read (it names posix.mkdir), which"
        " Trainer's checkpoints never do: do not resume from it. Remove its folder, or choose another checkpoint."
    )
    assert "Traceback" not in log_of(folder)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_would_run_code_is_refused(killed, tmp_path, name):
    out = shutil.copytree(killed / OUT, tmp_path / OUT)
    set_trap(out / "checkpoint-2", name, tmp_path / "trapped")
    for wanted in (None, True, str(out / "checkpoint-2")):
        with pytest.raises(ValueError, match=rf"{name} would run code when it is read \(it names posix.mkdir\)"):
            prepare_output_folder(out, wanted)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("how", ["pickle", "old format"])
def test_a_plain_pickle_is_no_state(killed, tmp_path, caplog, name, how):
    out = shutil.copytree(killed / OUT, tmp_path / OUT)
    path = out / "checkpoint-2" / name
    if how == "pickle":
        path.write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    else:
        torch.save(Trap(tmp_path / "trapped"), path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=f"is not a complete checkpoint: its {name} is damaged: File is not a zip"):
        prepare_output_folder(out, str(out / "checkpoint-2"))
    assert prepare_output_folder(out, None) is None
    assert f"its {name} is damaged" in caplog.text
    assert not (tmp_path / "trapped").exists()


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_the_index_of_a_sharded_checkpoint(tmp_path):
    """As FSDP writes it, which torch unpickles without looking."""
    state = {"model": {"weight": torch.zeros(4, 4, dtype=torch.bfloat16), "steps": 3}, "groups": [{"lr": 0.1}]}
    checkpoint = tmp_path / "checkpoint-1"
    sharded.save(state, checkpoint_id=checkpoint / "optimizer_0", no_dist=True)
    check_harmless(checkpoint)
    index = checkpoint / "optimizer_0" / ".metadata"
    content = index.read_bytes()
    index.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"\.metadata is damaged \(.*\)"):
        check_harmless(checkpoint)
    index.write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    with pytest.raises(ValueError, match=r"\.metadata would run code when it is read \(it names posix.mkdir\)"):
        check_harmless(checkpoint)
    assert not (tmp_path / "trapped").exists()
