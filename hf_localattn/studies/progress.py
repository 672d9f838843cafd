"""Estimate of a study's remaining time."""

from __future__ import annotations

import time
from datetime import timedelta


class Pace:
    """Estimates the remaining time of trials that run sequentially or in parallel.

    Args:
        count: number of trials to run.
    """

    def __init__(self, count: int):
        self.count, self.done, self._begun = count, 0, time.perf_counter()

    def step(self) -> timedelta:
        """Count one more finished trial and return the remaining time."""
        self.done += 1
        each = (time.perf_counter() - self._begun) / self.done
        return timedelta(seconds=round(each * max(0, self.count - self.done)))
