"""A command that something happens to, in a process forked from one that has imported this module."""

from __future__ import annotations

import itertools
import os
import re
import resource
import runpy
import signal
import sys
from pathlib import Path

import optuna

import hf_localattn.studies.command
import hf_localattn.tasks
from hf_localattn.cli import main
from hf_localattn.resources import tiny_backbone
from tests.script_helpers import ROOT

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
EVENTS = ("open", "os.rename", "os.mkdir")

# What every command would do once for itself: lazy imports, tables of regular expressions.
optuna.create_study(storage="sqlite:///:memory:")
hf_localattn.CoolModel.from_backbone(tiny_backbone())


def run(words: list[str], out: str, before: str | None = None, count: int = 1, limit: int | None = None) -> int | None:
    """Run a script or `hf-localattn` in the current folder, to which something happens.

    Args:
        words: the command.
        out: its output folder.
        before: an operation on a file of the output folder, such as "os.rename checkpoint-2/config.json": the process
            kills itself before the `count`-th one that this pattern matches.
        count: number of the operation, from 1.
        limit: no file may become longer than so many bytes.
    """
    folder = f"{Path(out).resolve()}{os.sep}"
    matches = itertools.count(1)

    def watch(event: str, arguments: tuple) -> None:
        if event not in EVENTS or (event == "open" and not (arguments[2] or 0) & WRITES):
            return
        path = arguments[1] if event == "os.rename" else arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(path))
        found = path.startswith(folder) and re.search(before, f"{event} {path.removeprefix(folder)}")
        if found and next(matches) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if before is not None:
        sys.addaudithook(watch)
    if words[0] == "hf-localattn":
        return main(words[1:])
    runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    return 0
