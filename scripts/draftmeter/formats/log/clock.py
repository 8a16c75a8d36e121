"""Times of statistics lines: they print month, day and time of day, but neither year nor zone.

Times are first counted in seconds of a year with a 29 February, beside the number of New Years that the file has passed.
When the whole file is known, its first year and its zone are settled, and with them Unix seconds. From one line to the next
less than half a year passes.
"""

import calendar
from collections import Counter
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from draftmeter.formats.log.known import Known
from draftmeter.formats.log.recovered import Floats, Ints
from draftmeter.formats.utc_offset import LARGEST_UTC_OFFSET_S, parse_utc_offset, utc_offset_text

NO_TIME = -1
NO_OFFSET = -1_000_000
DAY_S = 86_400
LEAP_YEAR_S = 366 * DAY_S
_LEAP_DAY_S = (31 + 28) * DAY_S
_MONTH_STARTS = np.cumsum([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_QUARTER_HOUR_S = 900
_WESTMOST_S = -12 * 3600
# Years that are tried to bring a line nearest to a known time.
_YEARS_AROUND = 8


@dataclass(frozen=True, slots=True)
class Stamps:
    """Times of lines in file order: `second` of a leap year (NO_TIME: none) by the server's own stamp.

    By a container's or journal's stamp: `utc` (Unix seconds; nan: none, or without zone), `ahead` (seconds that the server's
    clock is ahead of UTC; NO_OFFSET: unknown) and `year` of the server's clock (0: unknown).
    """

    second: Ints
    utc: Floats
    ahead: Ints
    year: Ints

    def at(self, rows: Ints) -> "Stamps":
        """The times of these lines."""
        return Stamps(self.second[rows], self.utc[rows], self.ahead[rows], self.year[rows])


def read_stamps(stamps: NDArray[np.bytes_], isos: NDArray[np.bytes_]) -> Stamps:
    """Read the server's stamps (S14, "11-30 05:11:52" or b"") and those of containers (ISO, or b"")."""
    n = len(stamps)
    digits = np.ascontiguousarray(stamps).view(np.uint8).reshape(n, 14).astype(np.int64) - ord("0")
    two = digits[:, [0, 3, 6, 9, 12]] * 10 + digits[:, [1, 4, 7, 10, 13]]
    month, day, hour, minute, second = np.where(digits[:, :1] >= 0, two, 1).T
    seconds = (((_MONTH_STARTS[month - 1] + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    seconds = np.where(digits[:, 0] >= 0, seconds, NO_TIME)
    utc, ahead, year = np.full(n, np.nan), np.full(n, NO_OFFSET, np.int64), np.zeros(n, np.int64)
    for index in np.flatnonzero(isos != b"").tolist():
        if (read := _read_iso(isos[index])) is not None:
            time, zoned = read
            utc[index] = time.timestamp() if zoned else np.nan
            if seconds[index] != NO_TIME:
                ahead[index], year[index] = _compare(int(seconds[index]), time) if zoned else (NO_OFFSET, time.year)
    return Stamps(seconds, utc, ahead, year)


def _read_iso(text: bytes) -> tuple[datetime, bool] | None:
    """The time of a container's or journal's stamp, to the second, and whether it says its zone; None if it is none."""
    try:
        time = datetime.fromisoformat(text.decode("ascii").replace(",", ".")).replace(microsecond=0)
        return (time, False) if time.tzinfo is None else (time.astimezone(UTC), True)
    except (ValueError, OverflowError):  # no such day; a zone leads out of the calendar
        return None


def _compare(second: int, time: datetime) -> tuple[int, int]:
    """How far the server's clock is ahead of UTC, by one moment in both, and the year on it; NO_OFFSET and 0 if they are
    further apart than any zone is from UTC."""
    years = [year for year in (time.year - 1, time.year, time.year + 1) if MINYEAR <= year <= MAXYEAR]
    apart = {year: (_local(year, second) - time).total_seconds() for year in years}
    year = min(years, key=lambda year: abs(apart[year]))
    # The line is a little older than its container's stamp.
    ahead = _QUARTER_HOUR_S * round(apart[year] / _QUARTER_HOUR_S)
    return (ahead, year) if _WESTMOST_S <= ahead <= LARGEST_UTC_OFFSET_S else (NO_OFFSET, 0)


@dataclass(slots=True)
class Clock:
    """Follows the times through the file. `new_years` are counted from the first line."""

    first: int = NO_TIME
    last: int = NO_TIME
    new_years: int = 0
    leap_days: set[int] = field(default_factory=set)
    offsets: Counter[int] = field(default_factory=Counter)
    first_years: Counter[int] = field(default_factory=Counter)

    def follow(self, stamps: Stamps) -> Ints:
        """The number of New Years before each line; lines without a time get that of the line before."""
        known = np.flatnonzero(stamps.second != NO_TIME)
        if not len(known):
            return np.full(len(stamps.second), self.new_years, np.int64)
        seconds = stamps.second[known]
        if self.first == NO_TIME:
            self.first = self.last = int(seconds[0])
        steps = np.diff(seconds, prepend=self.last)
        passed = self.new_years + np.cumsum((steps < -LEAP_YEAR_S // 2).astype(np.int64) - (steps > LEAP_YEAR_S // 2))
        years = np.repeat(np.r_[self.new_years, passed], np.diff(np.r_[0, known, len(stamps.second)]))
        self.last, self.new_years = int(seconds[-1]), int(passed[-1])
        leap = (seconds >= _LEAP_DAY_S) & (seconds < _LEAP_DAY_S + DAY_S)
        self.leap_days.update(np.unique(passed[leap]).tolist())
        self.offsets.update(stamps.ahead[stamps.ahead != NO_OFFSET].tolist())
        self.first_years.update((stamps.year - years)[stamps.year > 0].tolist())
        return years


@dataclass(frozen=True, slots=True)
class Calendar:
    """The settled zone (seconds ahead of UTC) and year of the first line (None: unknown), and where they come from.

    `by_line`: containers' stamps say each line's own offset. `problems` are sentences for the user.
    """

    ahead: int
    zone: str
    zone_from: str
    by_line: bool
    first_year: int | None
    year_from: str
    problems: tuple[str, ...]

    def unix(self, stamps: Stamps, years: Ints) -> Floats:
        """Unix seconds of the lines, to the whole second; nan where they cannot be known."""
        times = np.full(len(years), np.nan)
        for passed in np.unique(years) if self.first_year is not None else ():
            year = int(self.first_year + passed)
            if not MINYEAR <= year <= MAXYEAR:
                continue
            rows = (years == passed) & (stamps.second != NO_TIME)
            second = stamps.second[rows]
            start = datetime(year, 1, 1, tzinfo=UTC).timestamp()
            if not calendar.isleap(year):
                no_such_day = (second >= _LEAP_DAY_S) & (second < _LEAP_DAY_S + DAY_S)
                second = np.where(second >= _LEAP_DAY_S, second - DAY_S, second)
                times[rows] = np.where(no_such_day, np.nan, start + second)
            else:
                times[rows] = start + second
        ahead = np.where(stamps.ahead != NO_OFFSET, stamps.ahead, self.ahead) if self.by_line else self.ahead
        return np.where(np.isnan(times), stamps.utc, times - ahead)


def settle(clock: Clock, known: Known) -> Calendar:
    """Zone and year of the whole file."""
    problems = []
    likely = clock.offsets.most_common(1)[0][0] if clock.offsets else None
    if known.zone is not None:
        ahead, zone_from = parse_utc_offset(known.zone), "given"
        if likely is not None and likely != ahead:
            problems.append(
                f"time zone: {known.zone} was given, but the time stamps of the container or journal say "
                f"{utc_offset_text(likely)}"
            )
    elif likely is not None:
        ahead, zone_from = likely, "the time stamps of the container or journal, which name their zone"
    else:
        ahead, zone_from = 0, "nothing names it: the times are read as UTC"
    first_year, year_from = _settle_year(clock, known, ahead)
    if first_year is not None and any(not _possible(first_year + passed) for passed in clock.leap_days):
        problems.append(f"time: a line is of 29 February; counted from {first_year}, the year of the first line, there is none")
    by_line = known.zone is None and likely is not None
    return Calendar(ahead, utc_offset_text(ahead), zone_from, by_line, first_year, year_from, tuple(problems))


def _settle_year(clock: Clock, known: Known, ahead: int) -> tuple[int | None, str]:
    if clock.first == NO_TIME:
        return None, "no line shows a time"
    if known.year is not None:
        return known.year, "given for the first line"
    if clock.first_years:
        return clock.first_years.most_common(1)[0][0], "the time stamps of the container or journal"
    if known.near_start is not None:
        local = known.near_start.astimezone(UTC) + timedelta(seconds=ahead)
        distance = {year: abs(_local(year, clock.first) - local) for year in _years(clock, local.year)}
        return min(distance, key=lambda year: distance[year]), "the known time near the first line"
    if known.near is not None:
        # The file was written after its last line, up to the difference of two zones.
        local = known.near.astimezone(UTC) + timedelta(seconds=ahead)
        years = list(_years(clock, local.year - clock.new_years))
        before = [year for year in years if _local(year + clock.new_years, clock.last) <= local + timedelta(days=1)]
        return max(before, default=min(years)), "counted back from the file's date, which is not before its last line"
    return None, "nothing names it"


def _years(clock: Clock, around: int) -> list[int]:
    """Years of the first line near `around` in which every day of the file exists; all, if that is none of them."""
    years = [year for year in range(around - _YEARS_AROUND, around + _YEARS_AROUND + 1) if 1 < year + clock.new_years < 9999]
    return [year for year in years if all(_possible(year + passed) for passed in clock.leap_days)] or years


def _possible(year: int) -> bool:
    return calendar.isleap(year)


def _local(year: int, second: int) -> datetime:
    day = second - DAY_S if not calendar.isleap(year) and second >= _LEAP_DAY_S else second
    return datetime(year, 1, 1, tzinfo=UTC) + timedelta(seconds=day)
