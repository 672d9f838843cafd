"""The program of a worker process: reads a job a line from stdin, and answers each with a line on stdout."""

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
    """Reads jobs from stdin. When stdin closes, the process ends, even in the middle of a job: nobody waits for it."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.open = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.open += 1
            self._lines.put(line)
        if self.open:
            os._exit(1)  # what it was writing is as after a kill
        self._lines.put("")

    def next(self) -> str:
        """Wait for a job; empty at the end."""
        return self._lines.get()


def main() -> None:
    """Run jobs until there are no more."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what trials print goes to the log
    if hasattr(os, "register_at_fork"):
        # A process that outlives this one, such as that of a data loader, must not keep the driver waiting.
        os.register_at_fork(after_in_child=lambda: os.close(answers))
    jobs = Jobs()
    while line := jobs.next():
        told = json.dumps(answer(line), default=str) + "\n"
        jobs.open -= 1
        os.write(answers, told.encode())


def answer(line: str) -> dict[str, object]:
    """Run the job of a line, and return its metrics, or its error and whether its setting may be the cause."""
    try:
        job = Job.from_json(line)
        set_up_logging(job.trial.arguments(job.folder)[2])
        return {"metrics": job.run()}
    except (Exception, SystemExit) as error:  # the latter by errors that end a command
        logger.exception("A job failed.")
        return {"error": reason_of(error), "is_of_setting": is_of_setting(error)}


if __name__ == "__main__":
    main()
