"""Times of a run that no step of the machine's clock spoils."""

import time
from collections.abc import Callable


class RunClock:
    """Unix seconds: one reading of the wall clock, and from there on a monotonic clock.

    Differences of its times are durations, whatever happens to the wall clock in between.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._began = wall()
        self._from = monotonic()

    def now(self) -> float:
        """The time, in Unix seconds as the wall clock would say had nobody set it since."""
        return self._began + (self._monotonic() - self._from)

    def step_s(self) -> float:
        """Seconds by which the wall clock is ahead of this one by now (negative: behind)."""
        return self._wall() - self.now()
