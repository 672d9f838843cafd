"""Without room to write a command fails, keeps its whole files, and goes on when there is room."""

from hf_localattn.training.output_folder import is_whole
from tests.faults.commands import OUT, assert_same, case, log_of, outcome


def test_the_last_checkpoint_stays_whole(warm, undisturbed, tmp_path):
    """Weights fit, the optimizer's state does not."""
    folder = case(tmp_path / "qa")
    warm.run("qa", folder, before="os.mkdir checkpoint-4")
    assert warm.run("qa", folder, limit=7_000_000) not in (0, -9)
    assert is_whole(folder / OUT / "checkpoint-2")
    assert not is_whole(folder / OUT / "checkpoint-4")
    assert warm.run("qa", folder) == 0
    assert_same(outcome(folder), undisturbed("qa"))


def test_init_leaves_nothing(warm, tmp_path):
    folder = case(tmp_path / "init")
    assert warm.run("init", folder, limit=500_000) not in (0, -9)
    assert "os error 27" in log_of(folder)
    assert not (folder / OUT).exists()
