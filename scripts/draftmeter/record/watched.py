"""A watched record: the folder that watching a live server, or reading a Prometheus server's history, leaves behind.

=====================  ==============================================================================
``watch.json``         what was watched, and when (:class:`Watched`); written at once, updated atomically
``scrapes.jsonl``      one :class:`ScrapeRow` a line, only ever appended to
``server.log``         the server's statistics lines, only ever appended to; never prompts
=====================  ==============================================================================

A watcher that is killed leaves a session without an end, and perhaps a last row that is cut short. Such a record is
whole up to there: readers take it, and the next watch continues it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError, model_validator

from draftmeter.record.run import Time
from draftmeter.strict import Strict, write_json

WATCH_JSON = "watch.json"
SCRAPES = "scrapes.jsonl"
SERVER_LOG = "server.log"

EndedBy = Literal["time", "Ctrl-C", "SIGTERM", "SIGHUP", "error"]


class WatchedError(ValueError):
    """A watched record that cannot be used: which file, what was found, what would be right."""


class Session(Strict):
    """One stretch of watching by one process. Times are aware.

    `end` and `ended_by` are null while it runs, and stay null if the process was killed.
    """

    start: Time
    end: Time | None = None
    ended_by: EndedBy | None = None


class Watched(Strict):
    """watch.json. A null is unknown; `notes` says in sentences what changed or what could not be known, and why."""

    schema_version: Literal[1] = 1
    source: Literal["server", "prometheus"] = "server"
    url: str
    """Of the server (or the Prometheus server), without credentials."""
    selector: str | None = None
    """The PromQL selector of a history; null for a live server."""
    instance: str | None = None
    """The scraped target of a history; null for a live server."""
    every_s: float
    """Nominal pace of the scrapes in seconds."""
    log: str | None
    """Name of the log file that was followed, without its folder; null if there was none."""
    time_zone: str | None
    """Zone of the time stamps in server.log, as an UTC offset such as +00:00."""
    time_zone_from: Literal["--zone", "measured"] | None = None
    """`measured`: the stamps of new lines against the clock of the watching machine, to a quarter of an hour."""
    log_interval_s: float | None = None
    engine_version: str | None = None
    """As the server tells it; the last one if it changed (see `notes`)."""
    models: list[str]
    k: int | None = None
    """Draft tokens per step; null if the counters do not show it or if it changed (see `notes`)."""
    notes: list[str]
    sessions: list[Session]
    draftmeter_version: str


class ScrapeRow(Strict):
    """One line of scrapes.jsonl: at `t`, Unix seconds, the server answered with `text`, or could not be read because of `error`.

    `text` holds the lines of /metrics that draftmeter uses, unchanged.
    """

    t: float
    text: str | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.error is None):
            raise ValueError("needs either text or error")
        return self

    def line(self) -> str:
        """The row as it stands in scrapes.jsonl, with its line feed."""
        return json.dumps(self.model_dump(exclude_none=True), separators=(",", ":"), ensure_ascii=True) + "\n"


def is_watched(folder: Path) -> bool:
    """Whether a folder is meant as a watched record (not whether it can be read)."""
    return (folder / WATCH_JSON).is_file()


def read_watched(folder: Path) -> Watched:
    """Read watch.json; raise :class:`WatchedError` for a folder without one or a malformed one."""
    path = folder / WATCH_JSON
    try:
        return Watched.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise WatchedError(f"{path}: not found; a watched record is a folder with a {WATCH_JSON}") from None
    except (OSError, ValueError) as error:
        raise WatchedError(f"{path}: not the {WATCH_JSON} of a watched record: {first_problem(error)}") from error


def write_watched(folder: Path, watched: Watched) -> None:
    """Write watch.json atomically."""
    write_json(folder / WATCH_JSON, watched)


def read_scrapes(folder: Path) -> Iterator[ScrapeRow]:
    """The rows of scrapes.jsonl in file order; none if there is no such file yet.

    A last line without its line feed is being written, or was cut short by a kill: it is left out. Raises
    :class:`WatchedError` with the line's number for any other line that is no row.
    """
    path = folder / SCRAPES
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield ScrapeRow.model_validate_json(line)
            except ValidationError as error:
                raise WatchedError(f"{path}, line {number}: not a row of a scrape: {first_problem(error)}") from error


def first_problem(error: Exception) -> str:
    """What is wrong with data that a model refused, in one line: the first place that is wrong, and how."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
