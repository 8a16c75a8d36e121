"""Progress of a measuring job as plain lines on standard error: which boot, which run, how many
requests, time left.
"""

import logging
import sys
import time
from dataclasses import dataclass, field

EVERY_S = 5.0


def say(text: str) -> None:
    """One line for whoever watches the run."""
    logging.info("%s", text)
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class Progress:
    """Counts the answered requests of one run and says so every few seconds; `name` opens each
    line.
    """

    name: str
    answered: int = 0
    _requests: int | None = None
    _duration_s: float | None = None
    _start: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)

    def expect(self, requests: int) -> None:
        """So many requests will be sent."""
        self._requests = requests
        self._start = self._last = time.monotonic()

    def expect_until(self, duration_s: float) -> None:
        """Requests will be sent for so many seconds."""
        self._duration_s = duration_s
        self._start = self._last = time.monotonic()

    def done(self) -> None:
        """One more request was answered."""
        self.answered += 1
        now = time.monotonic()
        if now - self._last >= EVERY_S or self.answered == self._requests:
            self._last = now
            say(self.line(now - self._start))

    def line(self, elapsed_s: float) -> str:
        """The line after `elapsed_s` seconds of this run."""
        if self._duration_s is not None:
            left = max(self._duration_s - elapsed_s, 0)
            return f"{self.name}: {self.answered} requests answered, {_clock(left)} of traffic left"
        total = self._requests or 0
        left = elapsed_s / max(self.answered, 1) * (total - self.answered)
        return f"{self.name}: {self.answered} of {total} requests answered, about {_clock(left)} left"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
