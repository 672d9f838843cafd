"""Estimate of the time that a study still takes."""

from __future__ import annotations

import time
from datetime import timedelta


class Pace:
    """Estimates the time that is left, whether trials run one after the other or side by side.

    Args:
        count: trials that are to be run.
    """

    def __init__(self, count: int):
        self.count, self.done, self._begun = count, 0, time.perf_counter()

    def step(self) -> timedelta:
        """Note that one more trial is done, and return the time that is left."""
        self.done += 1
        each = (time.perf_counter() - self._begun) / self.done
        return timedelta(seconds=round(each * max(0, self.count - self.done)))
