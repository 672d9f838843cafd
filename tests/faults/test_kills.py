"""Commands that are killed and repeated leave the files of an undisturbed run, bit for bit."""

from __future__ import annotations

import re
import signal

import pytest

from tests.faults.commands import COMMANDS, assert_same, case, log_of, outcome

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
    assert code == 0 or re.search("holds a finished run|exists already", log_of(folder).splitlines()[-1]), log_of(
        folder
    )
    assert_same(outcome(folder), expected)
