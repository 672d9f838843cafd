"""A command that something happens to, in a process that ends with it."""

import itertools
import os
import re
import resource
import runpy
import signal
import sys
from pathlib import Path

from hf_localattn.cli import main
from hf_localattn.studies import processes
from tests.run_here import run_here

ROOT = Path(__file__).parents[2]
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
EVENTS = ("open", "os.rename", "os.mkdir")


def run(words, out, before=None, count=1, limit=None):
    """Run a command in the current folder, which kills itself or can write no file of more bytes than a limit.

    It kills itself before the `count`-th operation on a file of its output folder that matches a pattern, such as
    "os.rename checkpoint-2/config.json".
    """
    folder = f"{Path(out).resolve()}{os.sep}"
    matches = itertools.count(1)

    def watch(event, arguments):
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
    processes._run_process = run_here
    if words[0] == "hf-localattn":
        return main(words[1:])
    runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    return 0
