"""What is known about a log besides its bytes, and what reading it found out."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TypedDict

from draftmeter.formats.log.wordings import MOST_POSITIONS

_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>[0-5]\d)")
MOST_REFUSED = 1000


@dataclass(frozen=True, slots=True)
class Known:
    """What the user, the record or the file's date says; all of it optional.

    `zone` is the UTC offset of the log's time stamps ("+01:00"), `year` that of its first line, `near` an aware time near
    its last line (the file's date: not before it), `near_start` one near its first line (stronger than `near`),
    `log_interval_s` the server's interval, `k` its draft tokens per step. Raises :class:`ValueError` for a value that none of
    these can have, and for a time without a zone.
    """

    zone: str | None = None
    year: int | None = None
    near: datetime | None = None
    near_start: datetime | None = None
    log_interval_s: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if self.zone is not None:
            parse_zone(self.zone)
        for name in ("near", "near_start"):
            time = getattr(self, name)
            if time is not None and time.tzinfo is None:
                raise ValueError(f"{name}: found {time.isoformat()}; expected a time with its zone")
        if self.year is not None and not 1970 <= self.year <= 9000:
            raise ValueError(f"year: found {self.year}; expected the year of the log's first line")
        if self.log_interval_s is not None and not 0 < self.log_interval_s < math.inf:
            raise ValueError(f"log interval: found {self.log_interval_s}; expected seconds above 0")
        if self.k is not None and not 1 <= self.k <= MOST_POSITIONS:
            raise ValueError(f"K: found {self.k}; expected a number of draft tokens from 1 to {MOST_POSITIONS}")


class RefusedRecord(TypedDict):
    """A place that looked like a record and is not read: its byte in the (decompressed) file, and why."""

    offset: int
    reason: str


@dataclass(slots=True)
class LogFound:
    """What a log turned out to be. Each `..._from` says where the value beside it comes from.

    `wordings` counts the records by version family, `prefixes` by what stood before them or happened to them; `cumulative`
    are records of V0 engines, whose counts run since the server's start and are never summed. `refused` has the first 1000
    of `refused_count`. `unknown` names what cannot be known, and why; a zone that had to be taken as UTC is in it.
    """

    format: str = "no statistics lines"
    wordings: dict[str, int] = field(default_factory=dict)
    prefixes: dict[str, int] = field(default_factory=dict)
    k: int | None = None
    k_from: str = ""
    intervals: int = 0
    engine_lines: int = 0
    processes: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    log_interval_s: float | None = None
    log_interval_from: str = ""
    zone: str = "+00:00"
    zone_from: str = ""
    year_from: str = ""
    cumulative: int = 0
    refused: list[RefusedRecord] = field(default_factory=list)
    refused_count: int = 0
    unknown: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def parse_zone(zone: str) -> timezone:
    """The zone of an UTC offset such as "+01:00"; raises :class:`ValueError` naming what was found otherwise."""
    match = _ZONE.fullmatch(zone)
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"])) if match else timedelta(days=1)
    if match is None or offset >= timedelta(days=1):
        raise ValueError(f"time zone: found {zone!r}; expected an UTC offset such as +00:00")
    return timezone(-offset if match["sign"] == "-" else offset)


def zone_text(ahead_s: int) -> str:
    """The UTC offset that is this many seconds ahead of UTC, as text."""
    minutes = abs(ahead_s) // 60
    return f"{'-' if ahead_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
