"""Forks a process for every command it reads, a line of JSON each, and says its exit code; see `commands.Warm`."""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import runpy
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import optuna
import torch

import hf_localattn
import hf_localattn.cli
import hf_localattn.studies.command
import hf_localattn.tasks
from hf_localattn.resources import tiny_backbone
from tests.faults.commands import OUT
from tests.script_helpers import ROOT

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


@dataclass
class Fault:
    """What happens to a process.

    Args:
        before: an operation on a file of the output folder, such as "os.rename checkpoint-2/config.json": the process
            kills itself before the `count`-th one that this pattern matches.
        tear: a file of `torch.save`: the process kills itself when half of the `count`-th one is written.
        limit: no file may become longer than so many bytes.
    """

    before: str | None = None
    tear: str | None = None
    count: int = 1
    limit: int | None = None

    def arm(self, out: Path) -> None:
        if self.limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, self.limit))
        if self.before is not None:
            sys.addaudithook(lambda event, arguments: self.watch(event, arguments, f"{out}{os.sep}"))
        if self.tear is not None:
            save = torch.save

            def torn(content: object, path: str, *args: object, **kwargs: object) -> None:
                save(content, path, *args, **kwargs)
                if re.search(self.tear, str(path)) and self.is_it():
                    os.truncate(path, os.path.getsize(path) // 2)
                    os.kill(os.getpid(), signal.SIGKILL)

            torch.save = torn

    def watch(self, event: str, arguments: tuple, out: str) -> None:
        if event not in EVENTS or (event == "open" and not (arguments[2] or 0) & WRITES):
            return
        path = arguments[1] if event == "os.rename" else arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        inside = arguments[-1] if event in ("os.remove", "os.rmdir") else -1  # a folder that `shutil.rmtree` is in
        path = os.path.join(os.readlink(f"/proc/self/fd/{inside}") if inside > 0 else os.getcwd(), os.fsdecode(path))
        if not path.startswith(out):
            return
        operation = f"{event} {path.removeprefix(out)}"
        if re.search(self.before, operation) and self.is_it():
            os.kill(os.getpid(), signal.SIGKILL)

    def is_it(self) -> bool:
        self.count -= 1
        return self.count == 0


def run(order: dict) -> int:
    folder, fault = Path(order["folder"]), Fault(**order["fault"])
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout.reconfigure(line_buffering=True)  # the lines of both in their order
    program, *words = order["words"]
    fault.arm(folder / OUT)
    try:
        if program == "hf-localattn":
            code = hf_localattn.cli.main(words)
        else:
            sys.argv = [program, *words]
            code = 0
            runpy.run_path(str(ROOT / program), run_name="__main__")
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def warm_up() -> None:
    """Do once what every command would do for itself: lazy imports, tables of regular expressions."""
    optuna.create_study(storage="sqlite:///:memory:")
    hf_localattn.CoolModel.from_backbone(tiny_backbone())
    gc.collect()
    gc.freeze()  # or each command would look through all of it several times


def main() -> None:
    warm_up()
    for line in sys.stdin:
        process = os.fork()
        if not process:
            os.close(0)
            os._exit(run(json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
