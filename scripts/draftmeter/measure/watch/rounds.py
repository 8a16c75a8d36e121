"""The rounds of a watch: scrapes on a steady grid, the log in between, and a last round at the end."""

import math
import time
from datetime import UTC, datetime
from pathlib import Path

from draftmeter.formats.metrics import Metrics
from draftmeter.measure.watch.kept_lines import KeptLines
from draftmeter.measure.watch.recording import Recording
from draftmeter.measure.watch.scraper import ScrapeError, Scraper
from draftmeter.measure.watch.stops import Stop
from draftmeter.measure.watch.totals import Totals
from draftmeter.measure.watch.view import Status, View
from draftmeter.measure.watch.zone import ZoneMeter
from draftmeter.record.watched import ScrapeRow

# How long the log is not looked at and nothing is shown where scrapes are further apart. Waking up is what costs most.
LONGEST_PAUSE_S = 10.0
K_CHANGED = "K changed"


class Grid:
    """Moments at a steady pace from `start` on, in seconds of a steady clock; what is late is left out, never made up for."""

    def __init__(self, start: float, pace_s: float) -> None:
        self._start = start
        self._pace_s = pace_s
        self._number = 0

    @property
    def next(self) -> float:
        """The next moment."""
        return self._start + self._number * self._pace_s

    def move_past(self, now: float) -> int:
        """Go to the first moment after `now`; return how many were left out."""
        before = self._number
        self._number = max(math.floor((now - self._start) / self._pace_s), before) + 1
        return self._number - before - 1


class Rounds:
    """One session of a watch; `for_s` seconds, or null for no end."""

    def __init__(
        self, scraper: Scraper, recording: Recording, kept: KeptLines | None, view: View, out: Path, for_s: float | None
    ) -> None:
        self._scraper = scraper
        self._recording = recording
        self._kept = kept
        self._view = view
        self._for_s = for_s
        self._zone = ZoneMeter()
        watched = recording.watched
        self._totals = Totals(watched.every_s)
        self._status = Status(
            url=watched.url,
            record=str(out),
            every_s=watched.every_s,
            started=time.time(),
            ends=None if for_s is None else time.time() + for_s,
            lines=None if kept is None else 0,
        )
        self._log_problem: str | None = None
        self._server_is_new = True
        """Whether the server must be asked again what it is: at first, and after it was away."""

    def go(self, stop: Stop) -> None:
        """Scrape and follow until the time is over or `stop` says so; then once more, so that nothing is left behind."""
        start = time.monotonic()
        end = math.inf if self._for_s is None else start + self._for_s
        every_s = self._status.every_s
        scrapes, looks = Grid(start, every_s), Grid(start, min(LONGEST_PAUSE_S, every_s))
        while stop.reason is None and (now := time.monotonic()) < end:
            if now >= scrapes.next:
                self._scrape()
                self._status.skipped += scrapes.move_past(time.monotonic())
            if now >= looks.next:
                self._take_lines()
                self._view.show(self._status, self._totals)
                looks.move_past(time.monotonic())
            stop.wait(min(scrapes.next, looks.next, end) - time.monotonic())
        self._scrape()
        self._take_lines()
        self._view.show(self._status, self._totals, last=True)

    def _scrape(self) -> None:
        try:
            text, reading = self._scraper.reading()
        except ScrapeError as error:
            self._recording.append(ScrapeRow(t=_stamp(), error=str(error)))
            self._status.failed += 1
            self._status.error = str(error)
            self._server_is_new = True
            return
        at = _stamp()
        self._recording.append(ScrapeRow(t=at, text=text))
        self._status.scrapes += 1
        self._status.error = None
        restarted = self._totals.add(at, reading)
        if restarted or self._server_is_new:
            self._server_is_new = False
            self._ask_what_it_is(reading)

    def _ask_what_it_is(self, reading: Metrics) -> None:
        for problem in reading.problems:
            self._note(problem)
        watched = self._recording.watched
        models = sorted({*watched.models, *filter(None, reading.models)})
        version = self._scraper.version()
        if version is not None and watched.engine_version not in (None, version):
            self._note(f"{_now()}: the engine's version changed from {watched.engine_version} to {version}")
        k_changed = any(K_CHANGED in note for note in watched.notes)
        if reading.k is not None and watched.k not in (None, reading.k):
            self._note(f"{_now()}: {K_CHANGED} from {watched.k} to {reading.k}")
            k_changed = True
        k = None if k_changed else reading.k or watched.k
        self._recording.update(models=models, engine_version=version or watched.engine_version, k=k)
        parts = [", ".join(reading.models), f"K = {reading.k}" if reading.k else "", f"vLLM {version}" if version else ""]
        self._status.engine = ", ".join(filter(None, parts))

    def _take_lines(self) -> None:
        if self._kept is None:
            return
        lines = self._kept.take()
        if self._kept.place_lost():
            self._note(f"{_now()}: the log was replaced or truncated, and the rest of it was not found; lines may be missing")
        if self._kept.problem not in (None, self._log_problem):
            self._note(f"{_now()}: the log cannot be read: {self._kept.problem}; lines are missing until it can")
        self._log_problem = self._kept.problem
        self._status.lines = (self._status.lines or 0) + len(lines)
        self._zone.add(lines, time.time())
        watched = self._recording.watched
        if self._zone.zone is None or self._zone.zone == watched.time_zone:
            return
        if watched.time_zone is None:
            self._recording.update(time_zone=self._zone.zone, time_zone_from="measured")
        elif not any(f"UTC{self._zone.zone}" in note for note in watched.notes):
            self._note(
                f"{_now()}: the log's new lines are stamped at UTC{self._zone.zone}, not at {watched.time_zone}: "
                "a change of summer time, or a wrong --zone"
            )

    def _note(self, sentence: str) -> None:
        if sentence not in self._recording.watched.notes:
            self._recording.note(sentence)
            self._view.say(f"note: {sentence}")


def _stamp() -> float:
    return round(time.time(), 3)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
