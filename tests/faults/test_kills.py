"""Commands that are killed, and given again until they end, leave what an undisturbed one leaves, bit for bit."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter

import pytest

from tests.faults.commands import COMMANDS, OUT, assert_same, case, last_line, log_of, outcome, start

KILLED = -signal.SIGKILL

# Each in the folder that the one before has left.
CHAINS = {
    "qa": [
        {"tear": "optimizer.pt"},
        {"before": "open checkpoint-2/trainer_state.json"},
        {"before": "os.rename _saving-checkpoint-2"},  # the older one is removed
        {"before": "os.(remove|rmdir) _saving-checkpoint-2", "count": 3},
        {"before": "os.rename model.safetensors"},  # of the final save
        {"before": "os.rename trainer_state.json"},
        {"before": "os.rename eval_results.json"},
        {"before": "os.remove .hf-localattn-unfinished"},
    ],
    "folds": [
        {"before": "os.rename folds.json"},
        {"tear": "fold-1/checkpoint-4/rng_state.pth"},
        {"before": "os.rename folds.json", "count": 2},
    ],
    "search": [
        {"before": "os.rename search.db"},
        {"before": "os.rename search.json", "count": 3},  # all trials are in the study, and not yet in the file
    ],
    "reproduce": [
        {"before": "os.rename runs/[^/]*/result.json"},
        {"before": "os.rmdir runs/[^/]*/_saving-model"},
    ],
    "init": [{"before": "os.rename tokenizer.json"}],
}


def assert_ended(code, folder):
    """It has come to its end, now or before it was killed."""
    assert code == 0 or re.search("holds a finished run|is in the way", last_line(folder)), log_of(folder)


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_chosen_instants(warm, undisturbed, tmp_path, name):
    expected, _ = undisturbed(name)
    folder = case(tmp_path / name)
    for fault in CHAINS[name]:
        assert warm.run(name, folder, **fault) == KILLED, f"{fault}: {log_of(folder)}"
    assert_ended(warm.run(name, folder), folder)
    assert_same(outcome(folder), expected)


@pytest.mark.slow(reason="some hundred runs of tiny models: tens of minutes")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_before_operations_on_files(warm, undisturbed, tmp_path, name):
    """Before each twelfth operation on a file of the output folder, wherever that is."""
    every = 12
    expected, operations = undisturbed(name)
    failed = {}
    numbers = range(1 + random.Random(0).randrange(every), len(operations) + 1, every)
    for number in numbers:
        folder = case(tmp_path / str(number))
        code = warm.run(name, folder, before=".", count=number)
        where = f"{number} of {len(operations)}"
        if code != KILLED:
            failed[where] = f"not killed: {log_of(folder)[-500:]}"
            continue
        left = sorted(str(path.relative_to(folder)) for path in (folder / OUT).glob("*"))
        try:
            assert_ended(warm.run(name, folder), folder)
            assert_same(outcome(folder), expected)
        except AssertionError as error:
            failed[where] = f"{left}: {error}"
        shutil.rmtree(folder)
    print(f"\n{name}: killed before {len(numbers)} of {len(operations)} operations on files, {len(failed)} failed")
    assert not failed, json.dumps(failed, indent=1)


def phase(folder) -> str:
    """What a process was at when it was killed, by what it has left."""
    out = folder / OUT
    names = [str(path.relative_to(out)) for path in out.rglob("*")] if out.is_dir() else []
    if not names:
        return "starting"
    checkpoints = [path for path in out.rglob("checkpoint-*") if path.is_dir() and "_incomplete" not in str(path)]
    if any("_saving-" in name for name in names):
        return "writing a file or folder"
    if any(not (path / "trainer_state.json").is_file() for path in checkpoints):
        return "writing a checkpoint"
    if any(name.endswith("train_results.json") for name in names):
        return "scoring, or beyond a first fold"
    return "training beyond a checkpoint" if checkpoints else "loading, or training to a first checkpoint"


def strike(name, folder, seconds: float, chance: random.Random) -> bool:
    """Start a command as a user does and kill it; False if it came to its end before.

    Half of the kills wait for a moment when something is being written, as such moments are short.
    """
    process = start(name, folder)
    out = folder / OUT
    began = time.monotonic()
    hunts, nth, seen, is_on = chance.random() < 0.5, chance.randint(1, 4), 0, False
    due = began + (0.9 if hunts else chance.uniform(0.1, 0.9)) * seconds
    while process.poll() is None:
        if hunts:
            was_on = is_on
            is_on = out.is_dir() and any(
                "_saving-" in path.name or (path.is_dir() and not (path / "trainer_state.json").exists())
                for pattern in (
                    "_saving-*",
                    "checkpoint-*",
                    "*/_saving-*",
                    "*/checkpoint-*",
                    "runs/*/model/checkpoint-*",
                )
                for path in out.glob(pattern)
            )
            seen += is_on and not was_on
            if is_on and seen == nth:
                time.sleep(chance.uniform(0, 0.04))
                break
        if time.monotonic() >= due:
            break
        time.sleep(0.001)
    process.kill()
    return process.wait() == KILLED


@pytest.mark.slow(reason="the real scripts, started some eighty times: half an hour")
@pytest.mark.timeout(7200)
def test_killed_at_random_instants(tmp_path):
    """Up to three times in a row, ten times for each of the four; those that were left alone then are compared."""
    chance, where, survived = random.Random(17), Counter(), Counter()
    for name in ("qa", "folds", "search", "reproduce"):
        folder = case(tmp_path / name / "whole")
        began = time.monotonic()
        assert start(name, folder).wait() == 0, log_of(folder)
        seconds, expected = time.monotonic() - began, outcome(folder)
        for number in range(30):  # on a machine that is busy some end before they are struck
            if survived[name] >= 10:
                break
            folder = case(tmp_path / name / str(number))
            for _ in range(3):
                if not strike(name, folder, seconds, chance):
                    break
                where[phase(folder)] += 1
                survived[name] += 1
            else:
                assert_ended(start(name, folder).wait(), folder)
            assert_same(outcome(folder), expected)
    print(f"\nkills survived: {dict(survived)}; when: {dict(where)}", file=sys.stderr)
    assert sum(survived.values()) >= 40
