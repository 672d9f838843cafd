"""Two processes with one output folder: the second is refused, unless the first is dead."""

import os
import signal
import time
from pathlib import Path

from tests.faults.commands import assert_same, case, last_line, outcome


def test_the_second_run_is_refused_and_the_first_is_not_disturbed(warm, undisturbed, tmp_path):
    expected = undisturbed("qa")
    folder = case(tmp_path / "qa")
    first = warm.start("qa", folder, before="os.mkdir checkpoint-4", signal=signal.SIGSTOP)
    while Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    assert warm.run("qa", folder, log="second") == 2
    assert "is in use by another process" in last_line(folder, "second")
    os.kill(first, signal.SIGCONT)
    assert warm.end() == 0
    assert_same(outcome(folder), expected)
