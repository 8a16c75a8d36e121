"""Watch a live server: scrape at a steady pace, follow its log, show how things stand, and end with a whole record."""

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from draftmeter.measure.watch.address import Address
from draftmeter.measure.watch.followed import Kept, require_log
from draftmeter.measure.watch.kept_lines import KeptLines
from draftmeter.measure.watch.lock import locked
from draftmeter.measure.watch.recording import Recording, read_continued
from draftmeter.measure.watch.rounds import Rounds
from draftmeter.measure.watch.scraper import ScrapeError, Scraper
from draftmeter.measure.watch.stops import stop_on_signals
from draftmeter.measure.watch.view import Formulas, shown
from draftmeter.record.watched import EndedBy, Session, Watched, WatchedError

DEFAULT_EVERY_S = 10.0
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 1.0, 5.0


class ServerUnusable(RuntimeError):
    """What is at the address cannot be watched, or is not there yet: why."""


@dataclass(frozen=True)
class Wanted:
    """What to watch, and how; a null is decided by the record that is continued, or else by a default."""

    address: Address
    out: Path
    every_s: float | None
    for_s: float | None
    log: Path | None
    zone: str | None
    wait: bool
    """Begin even if the server does not answer yet."""


def watch(wanted: Wanted, kept: Kept, formulas: Formulas, console: Console) -> EndedBy:
    """Watch until the time is over or a signal comes; return which. `kept` is what may be stored of a log.

    Raises :class:`ServerUnusable`, :class:`draftmeter.record.watched.WatchedError` or
    :class:`draftmeter.measure.watch.followed.LogFileError` if there is nothing to watch or nowhere to write, and OSError
    if the record cannot be written.
    """
    if wanted.log is not None:
        require_log(wanted.log)
        if wanted.log.resolve().is_relative_to(wanted.out.resolve()):
            raise WatchedError(f"--log: {wanted.log} lies in the record {wanted.out}; expected the server's own log")
    before = read_continued(wanted.out, wanted.address.url, wanted.every_s, wanted.zone)
    every_s = wanted.every_s or (before.every_s if before else DEFAULT_EVERY_S)
    scraper = Scraper(wanted.address, min(max(every_s, SHORTEST_TIMEOUT_S), LONGEST_TIMEOUT_S))
    missing = _ask_first(scraper, wanted)
    wanted.out.mkdir(parents=True, exist_ok=True)
    with locked(wanted.out), stop_on_signals() as stop:
        # Read again: before the lock was ours, another process may have written here.
        before = read_continued(wanted.out, wanted.address.url, every_s, wanted.zone)
        with ExitStack() as closing:
            recording = closing.enter_context(Recording(wanted.out, _begun(wanted, every_s, before)))
            lines = None if wanted.log is None else closing.enter_context(KeptLines(wanted.out, wanted.log, kept))
            view = closing.enter_context(shown(console, formulas))
            if missing is not None:
                view.say(f"waiting for {wanted.address.url}: {missing}")
            Rounds(scraper, recording, lines, view, wanted.out, wanted.for_s).go(stop)
            recording.ended_by = stop.reason or "time"
    return recording.ended_by


def _ask_first(scraper: Scraper, wanted: Wanted) -> str | None:
    """Whether there is a server to watch: null, or why it does not answer yet where that is no reason not to begin."""
    try:
        scraper.reading()
    except ScrapeError as error:
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
