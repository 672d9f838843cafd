"""Commands that are killed, or have no room, and are repeated leave the files of an undisturbed run, bit for bit."""

import hashlib
import json
import os
import re
import signal
import subprocess
from functools import cache

import pytest

from hf_localattn.files import atomic_write
from hf_localattn.training.output_folder import is_whole
from tests.fresh_process import bare_python

OUT = "out"
"""The output folder in the folder that a command runs in: nothing that it writes there names another path."""

STEPS = "--max_steps 4 --save_steps 2 --logging_steps 3"
COMMON = "--family cool --backbone tiny --local_config num_local_layers=1 conv_filters=4 --use_cpu"
COMMON += f" --disable_tqdm true --per_device_train_batch_size 2 --output_dir {OUT}"
TEXTS = f"run_glue.py {COMMON} --train_file sample:reviews.csv --max_seq_length 16"
SEARCH = "--search_space space.json --search_trials 2"
QUESTIONS = "--train_file sample:reading/train.json --validation_file sample:reading/validation.json --do_train"
QUESTIONS += " --do_eval --max_train_samples 10 --max_eval_samples 4 --max_seq_length 48 --doc_stride 16"

COMMANDS = {
    "qa": f"run_qa.py {COMMON} {STEPS} {QUESTIONS} --save_total_limit 1",
    "folds": f"{TEXTS} {STEPS} --num_folds 2",
    "search": f"{TEXTS} {SEARCH} --validation_file sample:reviews.csv --max_steps 2",
    "init": f"hf-localattn init cool tiny {OUT}",
}
SPACE = {"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "outlook_dropout": [0.0, 0.1]}

KILLS = {
    "qa": [{"before": "open checkpoint-4/trainer_state.json"}, {"before": "os.rename eval_results.json"}],
    "folds": [{"before": "os.rename folds.json", "count": 2}],
    "search": [{"before": "os.rename search.json", "count": 2}],
    "init": [{"before": "os.rename tokenizer.json"}],
}
"""Faults of each command, each in the folder that the one before has left."""

FAULTY = """
import json, sys
from tests.faults.faulty import run
out, fault, *sys.argv = sys.argv[1:]
sys.exit(run(sys.argv, out, **json.loads(fault)))
"""


@pytest.fixture(scope="session")
def run():
    """Run a command, to which a fault of `faulty.run` happens, and return its exit code (-9 if it was killed)."""
    python = bare_python("tests.warm_runs")

    def run_command(name, folder, **fault):
        atomic_write(folder / "space.json", json.dumps(SPACE))
        command = [*python, "-c", FAULTY, OUT, json.dumps(fault), *COMMANDS[name].split()]
        with (folder / "log").open("wb") as log:
            done = subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=False)
            return done.returncode

    return run_command


@pytest.fixture(scope="session")
def undisturbed(run, tmp_path_factory):
    """A function that returns what a command leaves."""

    @cache
    def outcome_of(name):
        folder = tmp_path_factory.mktemp(name)
        assert run(name, folder) == 0, log_of(folder)
        return outcome(folder)

    return outcome_of


def log_of(folder):
    return (folder / "log").read_text(errors="replace")


def without_times(pairs):
    return {
        name: value for name, value in pairs if not re.search("runtime|_per_second|seconds|_preparation_time", name)
    }


def outcome(folder):
    """All that a command has left, by name: digests of files, JSON without times."""
    found = {}
    for path in (folder / OUT).rglob("*"):
        name = str(path.relative_to(folder / OUT))
        if path.suffix == ".json":
            found[name] = json.loads(path.read_text(), object_pairs_hook=without_times)
        elif path.suffix == ".db" or path.name == "training_args.bin":  # of SQLite with times; a pickle nobody reads
            found[name] = "there"
        elif path.is_file() and path.suffix != ".log":  # with times
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_ends_the_same(run, undisturbed, tmp_path, name):
    expected = undisturbed(name)
    folder = tmp_path / name
    for fault in KILLS[name]:
        assert run(name, folder, **fault) == -signal.SIGKILL, f"{fault}: {log_of(folder)}"
    code = run(name, folder)
    refused = re.search("holds a finished run|exists already", log_of(folder).splitlines()[-1])
    assert code == 0 or refused, log_of(folder)
    assert outcome(folder) == expected


def test_without_room_the_last_checkpoint_stays_whole(run, undisturbed, tmp_path):
    """Weights fit, the optimizer's state does not."""
    folder = tmp_path / "qa"
    run("qa", folder, before="os.mkdir checkpoint-4")
    assert run("qa", folder, limit=1_200_000) not in (0, -9)
    assert is_whole(folder / OUT / "checkpoint-2")
    assert not is_whole(folder / OUT / "checkpoint-4")
    assert run("qa", folder) == 0
    assert outcome(folder) == undisturbed("qa")


def test_without_room_init_leaves_nothing(run, tmp_path):
    folder = tmp_path / "init"
    assert run("init", folder, limit=500_000) not in (0, -9)
    assert "os error 27" in log_of(folder)
    assert not os.path.exists(folder / OUT)
