"""The program of a worker process: reads a job a line from stdin, and answers each with a line on stdout."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable

from hf_localattn.studies.executors import OF_THE_SETTING, Job, Work, reason_of

logger = logging.getLogger(__name__)


class Jobs:
    """The jobs of stdin. Its end is that of the process, at once if it is at work: nobody waits for its answer."""

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


def main(read: Callable[[str], Work] = Job.from_json) -> None:
    """Run jobs until there are no more.

    Args:
        read: makes a job of its line.
    """
    answers = os.dup(1)
    os.dup2(2, 1)  # what trials print goes to the log
    if hasattr(os, "register_at_fork"):
        # A process that outlives this one, such as that of a data loader, must not keep the driver waiting.
        os.register_at_fork(after_in_child=lambda: os.close(answers))
    jobs = Jobs()
    while line := jobs.next():
        line = json.dumps(answer(read(line))) + "\n"
        jobs.open -= 1
        os.write(answers, line.encode())


def answer(job: Work) -> dict[str, object]:
    """Run a job, and return its metrics, or its error and whether its setting may be the cause."""
    try:
        return {"metrics": job.run()}
    except Exception as error:
        logger.exception("%s failed.", job.folder)
        return {"error": reason_of(error), "is_of_setting": isinstance(error, OF_THE_SETTING)}


if __name__ == "__main__":
    main()
