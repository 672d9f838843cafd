"""Program of a worker process: reads jobs from stdin, one per line, and writes one line per job to stdout."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading

from hf_localattn.studies.executors import Job, is_of_setting, reason_of
from hf_localattn.training.console import set_up_logging

logger = logging.getLogger(__name__)


class Jobs:
    """Reads jobs from stdin. When stdin is closed, the process exits at once, even during a job."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.open = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.open += 1
            self._lines.put(line)
        if self.open:
            os._exit(1)  # as safe as a kill, because files are written atomically
        self._lines.put("")

    def next(self) -> str:
        """Wait for a job and return its line; return an empty line at the end."""
        return self._lines.get()


def main() -> None:
    """Run jobs until there are no more."""
    answers = os.dup(1)
    os.dup2(2, 1)  # the output of trials goes to the log
    if hasattr(os, "register_at_fork"):
        # The driver waits until all copies of the descriptor are closed, including copies in data loader processes.
        os.register_at_fork(after_in_child=lambda: os.close(answers))
    jobs = Jobs()
    while line := jobs.next():
        result = json.dumps(answer(line), default=str) + "\n"
        jobs.open -= 1
        os.write(answers, result.encode())


def answer(line: str) -> dict[str, object]:
    """Run a job and return its metrics, or its error with True if the setting of the trial may be the cause."""
    try:
        job = Job.from_json(line)
        set_up_logging(job.trial.arguments(job.folder)[2])
        return {"metrics": job.run()}
    except (Exception, SystemExit) as error:  # user errors of a command raise SystemExit
        logger.exception("A job failed.")
        return {"error": reason_of(error), "is_of_setting": is_of_setting(error)}


if __name__ == "__main__":
    main()
