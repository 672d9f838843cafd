"""Running the scripts as processes of their own that something happens to, and telling what they leave behind.

`Warm` starts them by forking a process that has imported everything, which saves ten seconds each.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

from tests.fresh_process import bare_python
from tests.script_helpers import ROOT

OUT = "out"
"""The output folder in the folder that a command runs in: nothing that it writes there names another path."""

STEPS = ("--max_steps", "4", "--save_steps", "2", "--logging_steps", "3")
COMMON = ("--family", "cool", "--backbone", "tiny", "--local_config", "num_local_layers=1", "--use_cpu")
COMMON += ("--disable_tqdm", "true", "--per_device_train_batch_size", "2", "--output_dir", OUT)
TEXTS = ("run_glue.py", *COMMON, "--train_file", "sample:reviews.csv", "--max_seq_length", "16")

COMMANDS = {
    "qa": [
        *("run_qa.py", *COMMON, *STEPS, "--do_train", "--do_eval", "--max_seq_length", "48", "--doc_stride", "16"),
        *("--train_file", "sample:reading/train.json", "--max_train_samples", "10"),
        *("--validation_file", "sample:reading/validation.json", "--max_eval_samples", "4"),
        *("--save_total_limit", "1"),
    ],
    "folds": [*TEXTS, *STEPS, "--num_folds", "2"],
    "search": [
        *(*TEXTS, "--validation_file", "sample:reviews.csv", "--max_steps", "2"),
        *("--search_space", "space.json", "--search_trials", "2"),
    ],
    "init": ["hf-localattn", "init", "cool", "tiny", OUT],
}
SPACE = {"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "outlook_dropout": [0.0, 0.1]}

TIMES = re.compile(r"runtime|_per_second|seconds|_preparation_time")


def case(folder: Path) -> Path:
    """A folder to run commands in."""
    folder.mkdir(parents=True)
    (folder / "space.json").write_text(json.dumps(SPACE))
    return folder


def environment(folder: Path) -> dict[str, str]:
    """What all processes run under: this checkout's package, no network, no cache of others."""
    own = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **own, "PYTHONPATH": str(ROOT), "HF_HOME": f"{folder}/home"}


class Warm:
    """A process with everything imported that forks one for each command."""

    def __init__(self, folder: Path):
        command = [*bare_python(), "-m", "tests.faults.warm"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(folder), stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()
        self.process.wait()

    def run(self, name: str, folder: Path, **fault: object) -> int:
        """Run a command, to which a `tests.faults.warm.Fault` happens, and return its code, -9 if it was killed."""
        self.process.stdin.write(json.dumps({"words": COMMANDS[name], "folder": str(folder), "fault": fault}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def log_of(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")


def outcome(folder: Path) -> dict[str, str]:
    """All that a command has left, by name: digests of files, JSON without times."""
    out = folder / OUT
    found = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_dir() or path.suffix == ".log":  # with times
            continue
        if path.suffix == ".json":
            found[name] = json.dumps(_without_times(json.loads(path.read_text())), sort_keys=True)
        elif path.suffix == ".db" or path.name == "training_args.bin":  # of SQLite with times; a pickle nobody reads
            found[name] = "there"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _without_times(content: object) -> object:
    if isinstance(content, dict):
        return {name: _without_times(value) for name, value in content.items() if not TIMES.search(name)}
    return [_without_times(value) for value in content] if isinstance(content, list) else content


def assert_same(found: dict[str, str], expected: dict[str, str]) -> None:
    assert found.keys() == expected.keys(), f"more {found.keys() - expected}, less {expected.keys() - found}"
    for name, content in expected.items():
        assert found[name] == content, name
