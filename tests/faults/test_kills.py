"""Commands that are killed, or have no room, and are repeated leave the files of an undisturbed run, bit for bit."""

from __future__ import annotations

import re
import signal

import pytest

from hf_localattn.training.output_folder import is_whole
from tests.faults.commands import COMMANDS, OUT, assert_same, case, log_of, outcome

KILLS = {
    "qa": [{"tear": "checkpoint-4/optimizer.pt"}, {"before": "os.rename eval_results.json"}],
    "folds": [{"before": "os.rename run.json"}, {"before": "os.rename folds.json", "count": 2}],
    "search": [{"before": "os.rename search.json", "count": 2}],
    "init": [{"before": "os.rename tokenizer.json"}],
}
"""Faults of each command, each in the folder that the one before has left."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_ends_the_same(warm, undisturbed, tmp_path, name):
    expected = undisturbed(name)
    folder = case(tmp_path / name)
    for fault in KILLS[name]:
        assert warm.run(name, folder, **fault) == -signal.SIGKILL, f"{fault}: {log_of(folder)}"
    code = warm.run(name, folder)
    refused = re.search("holds a finished run|exists already", log_of(folder).splitlines()[-1])
    assert code == 0 or refused, log_of(folder)
    assert_same(outcome(folder), expected)


def test_without_room_the_last_checkpoint_stays_whole(warm, undisturbed, tmp_path):
    """Weights fit, the optimizer's state does not."""
    folder = case(tmp_path / "qa")
    warm.run("qa", folder, before="os.mkdir checkpoint-4")
    assert warm.run("qa", folder, limit=7_000_000) not in (0, -9)
    assert is_whole(folder / OUT / "checkpoint-2")
    assert not is_whole(folder / OUT / "checkpoint-4")
    assert warm.run("qa", folder) == 0
    assert_same(outcome(folder), undisturbed("qa"))


def test_without_room_init_leaves_nothing(warm, tmp_path):
    folder = case(tmp_path / "init")
    assert warm.run("init", folder, limit=500_000) not in (0, -9)
    assert "os error 27" in log_of(folder)
    assert not (folder / OUT).exists()
