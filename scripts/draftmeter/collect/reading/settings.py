"""What the user says about files that do not say it themselves."""

from dataclasses import dataclass
from typing import Literal, get_args

IntervalsFrom = Literal["auto", "lines", "counters"]
INTERVALS_FROM: tuple[IntervalsFrom, ...] = get_args(IntervalsFrom)


@dataclass(frozen=True)
class Settings:
    """All optional. They win over what a file lets one infer, never over what it says."""

    zone: str | None = None
    """UTC offset of the time stamps in logs, such as "+01:00"."""
    year: int | None = None
    log_interval_s: float | None = None
    k: int | None = None
    intervals: IntervalsFrom = "auto"
    """Of a watched record: from its log lines, from differences of its counters, or from lines where it has some."""
