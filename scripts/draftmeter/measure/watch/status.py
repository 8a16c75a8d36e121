"""What a watch shows: how it stands and what it has counted so far, kept up to date scrape by
scrape.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from draftmeter.formats.counter_series import CounterSeries
from draftmeter.formats.counters import ALL, Counters, add_up, add_up_known
from draftmeter.formats.metrics import Metrics

BUCKETS = 30
SHORTEST_BUCKET_S = 20.0


@dataclass
class Status:
    """What the view shows besides the counts. Times are Unix seconds."""

    url: str
    record: str
    every_s: float
    started: float
    ends: float | None
    engine: str = ""
    """Model, K and version of the engine in one phrase."""
    scrapes: int = 0
    failed: int = 0
    skipped: int = 0
    lines: int | None = None
    """Statistics lines stored; None if no log is followed."""
    error: str | None = None
    """Why the last scrape failed; None if it did not."""


@dataclass
class Totals:
    """The counts of one session of a watch, all models and engines together, over restarts of the
    server.

    `counted` begins with the first scrape; `running` and `waiting` are those of the last one, None
    where unknown.
    """

    every_s: float
    counted: Counters = field(default_factory=Counters)
    running: int | None = None
    waiting: int | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        self._series = CounterSeries(self.every_s)
        self._bucket_s = max(self.every_s, SHORTEST_BUCKET_S)
        self._buckets: deque[tuple[int, Counters]] = deque()

    @property
    def recent_s(self) -> float:
        """Seconds that :meth:`recent` reaches back."""
        return BUCKETS * self._bucket_s

    def add(self, t: float, reading: Metrics) -> bool:
        """Take the scrape at `t` (Unix seconds); return whether it shows that the server restarted."""
        for row in self._series.add(t, reading):
            self._add_recent(row["end"], Counters(draft_tokens=row["drafted"], accepted=row["accepted"]))
        result = self._series.result()
        self.counted = add_up([part.counters for part in result.parts if part.engine == ALL]) if result.parts else Counters()
        self.running = add_up_known(engine.running for engine in reading.engines)
        self.waiting = add_up_known(engine.waiting for engine in reading.engines)
        restarts, self.restarts = self.restarts, len(result.restarts)
        return self.restarts > restarts

    def recent(self, t: float) -> list[Counters]:
        """Draft and accepted tokens of each part of the last minutes before `t` (Unix seconds), the
        oldest first.
        """
        last = int(t // self._bucket_s)
        found = dict(self._buckets)
        return [found.get(number, Counters()) for number in range(last - BUCKETS + 1, last + 1)]

    def _add_recent(self, t: float, gained: Counters) -> None:
        number = int(t // self._bucket_s)
        if self._buckets and self._buckets[-1][0] == number:
            gained = add_up([self._buckets.pop()[1], gained])
        self._buckets.append((number, gained))
        while self._buckets[0][0] <= number - BUCKETS:
            self._buckets.popleft()


class View(Protocol):
    """Something that shows a watch."""

    def show(self, status: Status, totals: Totals, *, last: bool = False) -> None:
        """Show how things stand now; `last`: nothing comes after it."""

    def say(self, sentence: str) -> None:
        """Show a sentence that stays."""
