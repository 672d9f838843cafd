"""Runs of folds, trials and tables in the process of the tests."""

import json
import threading
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

RUNNING = threading.Lock()


def run_here(words, log, *_):
    """Do what `processes._run_process` does, but in this process, one run at a time."""
    from hf_localattn import names, tasks
    from hf_localattn.studies.command import run_task

    _, script, options = words
    with RUNNING, log.open("a") as output, redirect_stdout(output), redirect_stderr(output):
        try:
            run_task(getattr(tasks, names.SCRIPTS[script]), json.loads(Path(options).read_text(encoding="utf-8")))
        except SystemExit as ended:
            return ended.code
        except Exception:
            traceback.print_exc()
            return 1
    return 0
