"""The zone of a log's time stamps, measured while the log grows: a new line's stamp against the clock."""

import re
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_STAMP = re.compile(r"(?<![\d-])(?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?![\d:])")
QUARTER_S = 900
# A line that was held back in a buffer is older than its arrival, by any amount: it tells nothing.
LARGEST_DELAY_S = 90
LARGEST_OFFSET_S = 14 * 3600
# So many readings in a row must agree.
READINGS = 3


class ZoneMeter:
    """Takes the lines that arrived together; `zone` is null until several arrivals in a row gave the same offset."""

    def __init__(self) -> None:
        self._readings: deque[str] = deque(maxlen=READINGS)

    def add(self, lines: Sequence[str], now: float) -> None:
        """Take what arrived at `now` (Unix seconds); only the last line is new enough to tell."""
        offset = stamp_offset(lines[-1], now) if lines else None
        if offset is not None:
            self._readings.append(offset)

    @property
    def zone(self) -> str | None:
        """The offset from UTC, such as +01:00."""
        return self._readings[0] if len(self._readings) == READINGS and len(set(self._readings)) == 1 else None


def stamp_offset(line: str, now: float) -> str | None:
    """The offset from UTC, to a quarter of an hour, at which the stamp of `line` is the time `now`; null if there is none."""
    match = _STAMP.search(line)
    if match is None:
        return None
    clock = datetime.fromtimestamp(now, UTC)
    for year in (clock.year, clock.year - 1, clock.year + 1):
        try:
            stamp = datetime.fromisoformat(f"{year}-{match['month']}-{match['day']}T{match['time']}+00:00")
        except ValueError:
            continue  # 29 February exists in some of the years only
        ahead = (stamp - clock) / timedelta(seconds=1)
        quarters = round(ahead / QUARTER_S)
        if abs(ahead) <= LARGEST_OFFSET_S + LARGEST_DELAY_S and abs(ahead - quarters * QUARTER_S) <= LARGEST_DELAY_S:
            minutes = abs(quarters) * 15
            return f"{'-' if quarters < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return None
