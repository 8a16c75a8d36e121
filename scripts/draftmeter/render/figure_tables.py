"""The tables behind the figures, read strictly: a missing column or a chance above 1 is an error."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from draftmeter.render.facts import RenderError


@dataclass(frozen=True)
class Chance:
    """Chance at one position in one group of intervals; a None is unknown."""

    fifth: int
    position: int
    chance: float | None
    low: float | None
    high: float | None
    equal_chances: float | None


@dataclass(frozen=True)
class Moment:
    """One interval in time, or a piece of time: hours since the first began, and the number of its continuous series."""

    hours: float
    acceptance: float
    """In a piece the mean over its intervals."""
    running: float | None
    """Requests at its end; in a piece the most."""
    series: str
    qualifies: bool
    """Whether it has enough drafts to be looked at by itself; a piece holds such intervals alone, or none."""
    intervals: int = 1
    between: tuple[float, float] | None = None
    """Percentiles 10 and 90 of the intervals of a piece; None for an interval by itself."""


@dataclass(frozen=True)
class Lag:
    """One lag of the autocorrelation; a None is unknown."""

    lag_s: float
    correlation: float
    low: float | None
    high: float | None
    fitted: float | None


def read_intervals(path: Path) -> list[float]:
    """Acceptance (a fraction) of each qualifying interval, from the column `acceptance`."""
    return [_acceptance(path, line, row) for line, row in _read_rows(path, ["acceptance"])]


def read_fifths(path: Path) -> list[Chance]:
    """The chances of panel (b) of Figure 1; empty cells are unknown."""
    columns = ["chance", "low", "high", "equal_chances"]
    chances = []
    for line, row in _read_rows(path, ["fifth", "position", *columns]):
        try:
            fifth, position = int(row["fifth"]), int(row["position"])
        except ValueError:
            raise RenderError(f"{path}, line {line}: fifth and position must be whole numbers; found {row}") from None
        if not 1 <= fifth <= 5 or position < 1:
            raise RenderError(f"{path}, line {line}: fifth must be 1 to 5 and position 1 or more; found {row}")
        chances.append(Chance(fifth, position, *(_fraction(path, line, name, row[name]) for name in columns)))
    return chances


def read_times(path: Path) -> list[Moment]:
    """The intervals of Figure 2, or its pieces of time, in the order of the file; what has no known time has no row in it."""
    moments = []
    for line, row in _read_rows(path, ["hours", "acceptance", "low", "high", "intervals", "running", "series", "qualifies"]):
        hours = _number(path, line, "hours", row["hours"])
        if hours is None:
            raise RenderError(f"{path}, line {line}: an interval without a time; it has no place in Figure 2")
        acceptance, running = _acceptance(path, line, row), _number(path, line, "running", row["running"])
        if row["qualifies"] not in ("0", "1"):
            raise RenderError(f"{path}, line {line}, qualifies: found {row['qualifies']!r}; needs 0 or 1")
        low, high = (_number(path, line, name, row[name]) for name in ("low", "high"))
        if not row["intervals"].isdecimal() or int(row["intervals"]) < 1 or (low is None) != (high is None):
            raise RenderError(
                f"{path}, line {line}: needs one interval or more, and both of low and high or neither; found {row}"
            )
        between = None if low is None or high is None else (low, high)
        qualifies, intervals = row["qualifies"] == "1", int(row["intervals"])
        moments.append(Moment(hours, acceptance, running, row["series"], qualifies, intervals, between))
    return moments


def read_lags(path: Path) -> list[Lag]:
    """The autocorrelations of Figure 3; a lag whose correlation is unknown is left out."""
    lags = []
    for line, row in _read_rows(path, ["lag_s", "correlation", "low", "high", "fitted"]):
        lag_s, correlation, low, high, fitted = (
            _number(path, line, name, row[name]) for name in ("lag_s", "correlation", "low", "high", "fitted")
        )
        if lag_s is None or lag_s <= 0 or (correlation is not None and abs(correlation) > 1):
            raise RenderError(f"{path}, line {line}: a lag is above 0 and a correlation from -1 to 1; found {row}")
        if correlation is not None:
            lags.append(Lag(lag_s, correlation, low, high, fitted))
    return lags


def _read_rows(path: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or [])]
            if missing:
                raise RenderError(f"{path}: no column {missing}; found {reader.fieldnames}; it is made by `analyse`")
            yield from enumerate(reader, start=2)
    except OSError as error:
        raise RenderError(f"{path}: cannot be read: {error.strerror}; it is made by the rule `analyse`") from error


def _acceptance(path: Path, line: int, row: dict[str, str]) -> float:
    value = _fraction(path, line, "acceptance", row["acceptance"])
    if value is None:
        raise RenderError(f"{path}: an interval without acceptance; a qualifying interval has drafts, so it has one")
    return value


def _fraction(path: Path, line: int, name: str, text: str) -> float | None:
    value = _number(path, line, name, text)
    # The ends of an interval may lie a little outside 0 and 1; a share or a chance itself may not.
    if value is not None and name not in {"low", "high"} and not 0 <= value <= 1:
        raise RenderError(f"{path}, line {line}, {name}: found {text!r}; a chance or share is a number from 0 to 1")
    return value


def _number(path: Path, line: int, name: str, text: str) -> float | None:
    if text == "":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RenderError(f"{path}, line {line}, {name}: found {text!r}; needs a number, or nothing where it is unknown")
    return value
