"""Commands that are killed, and given again until they end, leave what an undisturbed one leaves, bit for bit."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

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
        {"before": "os.rename fold-1/eval_example_scores.json"},
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
    assert code == 0 or re.search("holds a finished run|exists already", last_line(folder)), log_of(folder)


OWN_TEST = pytest.mark.slow(reason="seconds; tests of the command itself kill it once")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=OWN_TEST if name in ("search", "reproduce") else ()) for name in COMMANDS]
)
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


def is_writing(out) -> bool:
    """Whether something is there that is not whole."""
    if not out.is_dir():
        return False
    begun = [path for pattern in ("_saving-*", "*/_saving-*", "runs/*/_saving-*") for path in out.glob(pattern)]
    saved = [
        path
        for pattern in ("checkpoint-*", "*/checkpoint-*", "runs/*/model/checkpoint-*")
        for path in out.glob(pattern)
    ]
    return bool(begun) or not all((path / "trainer_state.json").exists() for path in saved)


def seconds_of(process) -> float | None:
    """What it has calculated so far, which says more than a clock where others use the machine; None at its end."""
    *_, state = Path(f"/proc/{process}/stat").read_text().partition(") ")
    fields = state.split()
    return None if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def strike(process, out, seconds: float, chance: random.Random) -> None:
    """Kill a process at a random instant; half of the kills wait for a moment when something is being written."""
    due, hunts, nth, was_on = chance.uniform(0, seconds), chance.random() < 0.5, chance.randint(1, 3), False
    while (so_far := seconds_of(process)) is not None:
        if hunts:
            is_on = is_writing(out)
            nth -= is_on and not was_on
            was_on = is_on
            if is_on and not nth:
                time.sleep(chance.uniform(0, 0.04))
                break
        elif so_far >= due:
            break
        time.sleep(0.001)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def survive(name, folder, begin, end, kills: int, chance: random.Random) -> Counter:
    """Kill a command as often, three times in a row, and compare what it leaves when it is left alone then.

    Args:
        begin: starts it in a folder and returns its process.
        end: waits for it and returns its code.
    """
    where, seconds, alone = Counter(), 0.0, case(folder / "whole")
    process = begin(alone)
    while (so_far := seconds_of(process)) is not None:
        seconds = so_far
        time.sleep(0.01)
    assert end() == 0, log_of(alone)
    expected = outcome(alone)
    for number in range(4 * kills):
        if where.total() >= kills:
            break
        own = case(folder / str(number))
        for _ in range(3):
            process = begin(own)
            strike(process, own / OUT, seconds, chance)
            if end() != KILLED:
                break
            where[phase(own)] += 1
        begin(own)
        assert_ended(end(), own)
        assert_same(outcome(own), expected)
    return where


@pytest.mark.slow(reason="the scripts, started some hundred times: a quarter of an hour and more")
@pytest.mark.timeout(7200)
def test_killed_at_random_instants(warm, tmp_path):
    """Forked processes mostly, and some that are started as a user would."""
    when, survived, chance = Counter(), {}, random.Random(17)
    for name in ("qa", "folds", "search", "reproduce"):
        own = survive(name, tmp_path / name, partial(warm.start, name), warm.end, 12, chance)
        started: list[subprocess.Popen] = []

        def begin(folder, name=name, started=started):
            started.append(start(name, folder))
            return started[-1].pid

        own += survive(name, tmp_path / "started" / name, begin, lambda started=started: started[-1].wait(), 2, chance)
        survived[name] = own.total()
        when += own
        print(f"\n{name}: {own.total()} kills survived: {dict(own)}")
    print(f"\nkills survived: {survived}, {when.total()} in all; when: {dict(when)}")
    assert when.total() >= 40
