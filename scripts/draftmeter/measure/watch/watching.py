"""Watch a live server: scrape at a steady pace, follow its log, show how things stand, and end with
a whole record.
"""

import asyncio
import json
import math
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import aiohttp

from draftmeter.formats.families import relevant_lines
from draftmeter.formats.metrics import Metrics, read_metrics
from draftmeter.measure.http import Address, NotAnswered, ask, session_to
from draftmeter.measure.watch.followed_log import KeptLines, ZoneMeter, require_log
from draftmeter.measure.watch.recording import Recording, locked, read_continued
from draftmeter.measure.watch.status import Status, Totals, View
from draftmeter.record.watched import EndedBy, ScrapeRow, Session, Watched, WatchedError

DEFAULT_EVERY_S = 10.0
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 1.0, 5.0
# How long the log is not looked at and nothing is shown where scrapes are further apart. Waking up
# is what costs most.
LONGEST_PAUSE_S = 10.0
K_CHANGED = "K changed"
ENDINGS: dict[signal.Signals, EndedBy] = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}


class ServerUnusable(RuntimeError):
    """What is at the address cannot be watched, or is not there yet: why."""


@dataclass(frozen=True)
class Wanted:
    """What to watch, and how; what is None is decided by the record that is continued, or else by a
    default.
    """

    address: Address
    out: Path
    every_s: float | None
    for_s: float | None
    log: Path | None
    zone: str | None
    wait: bool
    """Begin even if the server does not answer yet."""


def watch(wanted: Wanted, shown: AbstractContextManager[View]) -> EndedBy:
    """Watch until the time is over or a signal comes; return which. `shown` is entered when the
    watch begins.

    Raises :class:`ServerUnusable`, :class:`draftmeter.record.watched.WatchedError` or
    :class:`draftmeter.measure.watch.followed_log.LogFileError` if there is nothing to watch or
    nowhere to write, and OSError if the record cannot be written.
    """
    return asyncio.run(_watch(wanted, shown))


async def _watch(wanted: Wanted, shown: AbstractContextManager[View]) -> EndedBy:
    if wanted.log is not None:
        require_log(wanted.log)
        if wanted.log.resolve().is_relative_to(wanted.out.resolve()):
            raise WatchedError(f"--log: {wanted.log} lies in the record {wanted.out}; expected the server's own log")
    before = read_continued(wanted.out, wanted.address.url, wanted.every_s, wanted.zone)
    every_s = wanted.every_s or (before.every_s if before else DEFAULT_EVERY_S)
    async with session_to(wanted.address) as http:
        scraper = Scraper(http, wanted.address.url, min(max(every_s, SHORTEST_TIMEOUT_S), LONGEST_TIMEOUT_S))
        missing = await _ask_first(scraper, wanted)
        wanted.out.mkdir(parents=True, exist_ok=True)
        with locked(wanted.out), _stop_on_signals() as stop, ExitStack() as closing:
            # Read again: before the lock was ours, another process may have written here.
            before = read_continued(wanted.out, wanted.address.url, every_s, wanted.zone)
            recording = closing.enter_context(Recording(wanted.out, _begun(wanted, every_s, before)))
            lines = None if wanted.log is None else closing.enter_context(KeptLines(wanted.out, wanted.log))
            view = closing.enter_context(shown)
            if missing is not None:
                view.say(f"waiting for {wanted.address.url}: {missing}")
            await Rounds(scraper, recording, lines, view, wanted.out, wanted.for_s).go(stop)
            recording.ended_by = stop.reason or "time"
    return recording.ended_by


class Scraper:
    """Asks the server at `url` in a session to it; each answer must be complete within `timeout_s`
    seconds.
    """

    def __init__(self, http: aiohttp.ClientSession, url: str, timeout_s: float) -> None:
        self._http = http
        self._url = url
        self._timeout_s = timeout_s

    async def reading(self) -> tuple[str, Metrics]:
        """The lines of /metrics that draftmeter uses, unchanged, and what they say. Raises
        :class:`NotAnswered`.
        """
        try:
            text = (await ask(self._http, f"{self._url}/metrics", self._timeout_s)).decode()
        except UnicodeDecodeError:
            raise NotAnswered("the answer is no UTF-8 text") from None
        lines = relevant_lines(text)
        reading = read_metrics(lines)
        if not reading.engines:
            raise NotAnswered("the answer holds no metric of vLLM; expected a vLLM server")
        if not text.endswith("\n"):
            raise NotAnswered("the answer was cut short: it has no line feed at its end")
        return lines, reading

    async def version(self) -> str | None:
        """The engine's version as /version gives it; None where there is no such answer."""
        try:
            found = json.loads(await ask(self._http, f"{self._url}/version", self._timeout_s))
        except (NotAnswered, ValueError):
            return None
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, str) and len(version) < 100 else None


async def _ask_first(scraper: Scraper, wanted: Wanted) -> str | None:
    """Whether there is a server to watch: None, or why it does not answer yet where that is no
    reason not to begin.
    """
    try:
        await scraper.reading()
    except NotAnswered as error:
        if not error.passing:
            raise ServerUnusable(f"{wanted.address.url}/metrics: {error}") from None
        if not wanted.wait:
            raise ServerUnusable(
                f"{wanted.address.url}/metrics: {error}; start the server, or add --wait to wait for it"
            ) from None
        return str(error)
    return None


def _begun(wanted: Wanted, every_s: float, before: Watched | None) -> Watched:
    """The record with a new session."""
    session = Session(start=datetime.now(UTC))
    log = None if wanted.log is None else wanted.log.name
    zone = {} if wanted.zone is None else {"time_zone": wanted.zone, "time_zone_from": "--zone"}
    if before is not None:
        return before.model_copy(update={"sessions": [*before.sessions, session], "log": log or before.log, **zone})
    return Watched.model_validate(
        {
            "url": wanted.address.url,
            "every_s": every_s,
            "log": log,
            "time_zone": None,
            "models": [],
            "notes": [],
            "sessions": [session],
            "draftmeter_version": version("draftmeter"),
            **zone,
        }
    )


class Stop:
    """A wish to end the watch; `reason` is None until there is one. Nothing but a wait is cut short
    by it.
    """

    def __init__(self) -> None:
        self.reason: EndedBy | None = None
        self._asked = asyncio.Event()

    def ask(self, reason: EndedBy) -> None:
        """Note the first reason, and end every wait."""
        self.reason = self.reason or reason
        self._asked.set()

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until there is a reason (not at all if there is one already)."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._asked.wait()


@contextmanager
def _stop_on_signals() -> Iterator[Stop]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a :class:`Stop` for the time of the block.

    A signal that is ignored stays so: nohup and background shells mean it.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    before = {number: handler for number in ENDINGS if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        loop.add_signal_handler(number, stop.ask, ENDINGS[number])
    try:
        yield stop
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


class Grid:
    """Moments at a steady pace from `start` on, in seconds of a steady clock; what is late is left
    out, never made up for.
    """

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
    """One session of a watch; `for_s` seconds, or None for no end."""

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

    async def go(self, stop: Stop) -> None:
        """Scrape and follow until the time is over or `stop` says so; then once more, so that
        nothing is left behind.
        """
        start = time.monotonic()
        end = math.inf if self._for_s is None else start + self._for_s
        every_s = self._status.every_s
        scrapes, looks = Grid(start, every_s), Grid(start, min(LONGEST_PAUSE_S, every_s))
        while stop.reason is None and (now := time.monotonic()) < end:
            if now >= scrapes.next:
                await self._scrape()
                self._status.skipped += scrapes.move_past(time.monotonic())
            if now >= looks.next:
                self._take_lines()
                self._view.show(self._status, self._totals)
                looks.move_past(time.monotonic())
            await stop.wait(min(scrapes.next, looks.next, end) - time.monotonic())
        await self._scrape()
        self._take_lines()
        self._view.show(self._status, self._totals, last=True)

    async def _scrape(self) -> None:
        try:
            text, reading = await self._scraper.reading()
        except NotAnswered as error:
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
            await self._ask_what_it_is(reading)

    async def _ask_what_it_is(self, reading: Metrics) -> None:
        for problem in reading.problems:
            self._note(problem)
        watched = self._recording.watched
        models = sorted({*watched.models, *filter(None, reading.models)})
        version = await self._scraper.version()
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
