"""What is known about a log besides its bytes."""

import math
from dataclasses import dataclass
from datetime import datetime

from draftmeter.formats.log.wordings import MOST_POSITIONS
from draftmeter.formats.utc_offset import parse_utc_offset


@dataclass(frozen=True, slots=True)
class Known:
    """What the user, the record or the file's date says; all of it optional.

    `zone` is the UTC offset of the log's time stamps ("+01:00"), `year` that of its first line,
    `near` an aware time near its last line (the file's date: not before it), `near_start` one near
    its first line (stronger than `near`), `log_interval_s` the server's interval, `k` its draft
    tokens per step. Raises :class:`ValueError` for a value that none of these can have, and for a
    time without a zone.
    """

    zone: str | None = None
    year: int | None = None
    near: datetime | None = None
    near_start: datetime | None = None
    log_interval_s: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if self.zone is not None:
            try:
                parse_utc_offset(self.zone)
            except ValueError as error:
                raise ValueError(f"time zone: {error}") from error
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
