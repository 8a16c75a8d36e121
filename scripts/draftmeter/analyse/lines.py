"""The intervals of a workload as the statistics take them, beside the rows of the table that they come from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.counts import recovered
from draftmeter.analyse.facts import rounded
from draftmeter.analyse.tables import by_position, numbers, run_labels
from draftmeter.stats.intervals import IntervalSeries, IntervalsError, interval_series, joined_intervals

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

INTERVAL_COLUMNS = ["server", "boot", "attempt", "run", "offset", "start", "drafts", "acceptance"]
TIME_COLUMNS = ["hours", "acceptance", "low", "high", "intervals", "drafts", "running", "series", "boot", "qualifies"]
# More intervals than this would be a grey smear in a picture: so many pieces of time at most are shown in their place, or
# more where a study is longer than so many weeks.
MOST_SINGLE = 1500
MOST_PIECES = 400
PIECES_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
NO_POSITION = "a line gives no acceptance by position"
NO_LINE = "the log has no line with drafts"
# A reader that knows only rounded numbers may get counts that contradict each other.
CONTRADICTORY = "; see the failed cross-checks"


@dataclass(frozen=True)
class LogLines:
    """Intervals with drafts, n of them, by boot, series and time, or in the order of their log where it shows no time."""

    table: pd.DataFrame
    """Their rows, in the order of `lines`."""
    lines: IntervalSeries | None
    unknown: str
    """Why there are no `lines`."""
    timed: BoolArray
    """Whether the log shows the time of an interval, shape (n,); where it does not, its order stands for it."""
    exact: BoolArray
    """Whether drafts and drafts by position follow exactly from the line, or were recovered from rounded numbers."""
    counted: BoolArray
    """Whether the interval is a difference of counters, and no log line."""
    note: str = ""
    """What was done to the lines, in words."""

    def __len__(self) -> int:
        """Number of intervals."""
        return len(self.table)

    @property
    def source(self) -> str:
        """Where the figures come from, in words."""
        return self.kind + recovered(int((~self.exact).sum()))

    @property
    def kind(self) -> str:
        """Log lines, or differences of counters, or both."""
        kinds = [name for name, there in (("log lines", ~self.counted), ("differences of counters", self.counted)) if there.any()]
        return (" and ".join(kinds) or "log lines") + self.note

    @property
    def windows_s(self) -> FloatArray:
        """Nominal length of each interval, nan where unknown, shape (n,)."""
        return numbers(self.table, "window_s")

    @property
    def window_s(self) -> float | None:
        """The one length of all intervals; None where it is not known, or not one."""
        found = np.unique(self.windows_s)
        return float(found[0]) if len(found) == 1 and np.isfinite(found[0]) else None


def log_lines(intervals: pd.DataFrame, k: int) -> LogLines:
    """The rows with drafts of the table intervals, K = `k` (0: unknown). Acceptance by position is known for all or for none."""
    table = intervals[numbers(intervals, "drafted") > 0]
    printed_by = table[["process", "engine"]].astype("str").fillna("")
    series = run_labels(table) + "/" + printed_by["process"] + "/" + printed_by["engine"]
    timed = table["end"].notna().groupby(series).transform("all").astype(bool)
    table = table.assign(
        _series=series, _timed=timed, _end=table["end"].where(timed), _boot=_boots(table, printed_by["process"], timed)
    )
    table = table.sort_values(["_boot", "_series", "_end", "offset"], kind="stable").reset_index(drop=True)
    exact = [numbers(table, column) == 1 for column in ("drafts_exact", "accepted_k_exact")]
    known, unknown = _as_lines(table, k)
    return LogLines(
        table=table,
        lines=known,
        unknown=unknown,
        timed=table["_timed"].to_numpy(dtype=bool),
        exact=exact[0] & exact[1],
        counted=(table["wording"] == "counters").to_numpy(dtype=bool),
    )


def _as_lines(table: pd.DataFrame, k: int) -> tuple[IntervalSeries | None, str]:
    if table.empty:
        return None, NO_LINE
    at = by_position(table, k)
    window = numbers(table, "window_s")
    place = table.groupby("_series", sort=False).cumcount().to_numpy(dtype=np.float64)
    # Blocks of lines need their order alone; what needs their distance is not made of lines without a time.
    end = np.where(table["_timed"], numbers(table, "end"), place * np.where(np.isfinite(window), window, 1.0))
    try:
        return (
            interval_series(
                end,
                numbers(table, "drafts"),
                numbers(table, "accepted"),
                numbers(table, "drafted"),
                window_s=window,
                accepted_at=at if k and np.isfinite(at).all() else None,
                running=numbers(table, "running"),
                series=table["_series"].to_numpy(dtype=str),
                boot=table["_boot"].to_numpy(dtype=str),
            ),
            "",
        )
    except IntervalsError as error:
        return None, f"{error}{CONTRADICTORY}"


def _boots(table: pd.DataFrame, process: "pd.Series[str]", timed: "pd.Series[bool]") -> "pd.Series[str]":
    """A label for the start of the server that each row is of: its boot, and the processes that printed at the same time."""
    boot = table["server"].astype(str) + "/" + table["boot"].astype(str) + "/" + table["attempt"].astype("int64").astype(str)
    rows = pd.DataFrame({"boot": boot, "process": process, "end": table["end"]})[timed]
    spans = rows.groupby(["boot", "process"], sort=True)["end"].agg(["min", "max"]).sort_values(["boot", "min"])
    number: dict[tuple[str, str], int] = {}
    latest: dict[str, tuple[int, float]] = {}
    for (name, printed_by), (first, last) in zip(spans.index, spans.to_numpy(dtype=np.float64), strict=True):
        start, until = latest.get(name, (-1, -np.inf))
        number[name, printed_by] = start + int(first > until)
        latest[name] = (number[name, printed_by], max(until, float(last)))
    labels = [f"{one}/{number.get((one, other), 0):06d}" for one, other in zip(boot, process, strict=True)]
    return pd.Series(labels, index=table.index, dtype=str)


def joined(log: LogLines, interval_s: float) -> LogLines | None:
    """Intervals of `interval_s` made of those of the log; None where theirs is no whole part of it, or has no place in time."""
    length = log.window_s
    if log.lines is None or not log.timed.all() or length is None:
        return None
    parts = interval_s / length
    if round(parts) < 1 or abs(parts - round(parts)) > 1e-6:
        return None
    found = joined_intervals(log.lines, interval_s)
    columns = {name: getattr(found, name) for name in ("drafts", "drafted", "accepted", "window_s", "running")}
    n = len(found)
    return LogLines(
        table=pd.DataFrame(columns),
        lines=found,
        unknown="",
        timed=np.ones(n, dtype=bool),
        exact=np.full(n, bool(log.exact.all())),
        counted=np.full(n, bool(log.counted.all())),
        note=f", joined to {interval_s:g} s",
    )


def interval_rows(log: LogLines, min_drafts: int) -> Iterator[dict[str, Any]]:
    """One row for each qualifying interval, for Figure 1a, with the columns of INTERVAL_COLUMNS."""
    chosen = log.table[numbers(log.table, "drafts") >= min_drafts]
    acceptance = numbers(chosen, "accepted") / numbers(chosen, "drafted")
    names = INTERVAL_COLUMNS[:-2]
    columns = [[None if pd.isna(value) else value for value in chosen[name].tolist()] for name in names]
    for *values, drafts, accepted in zip(*columns, numbers(chosen, "drafts"), acceptance, strict=True):
        yield {**dict(zip(names, values, strict=True)), "drafts": int(drafts), "acceptance": rounded(float(accepted))}


def piece_s(log: LogLines) -> float | None:
    """Seconds of the pieces of time that Figure 2 shows; None where it shows every interval whose time is known."""
    if log.lines is None or int(log.timed.sum()) <= MOST_SINGLE:
        return None
    span = float(log.lines.end[log.timed].max()) - _first_start(log)
    return float(next((length for length in PIECES_S if length * MOST_PIECES >= span), PIECES_S[-1]))


def time_rows(log: LogLines, min_drafts: int) -> Iterator[dict[str, Any]]:
    """One row for each interval whose time is known, or for each piece of time, for Figure 2, with the columns of TIME_COLUMNS.

    `hours` since the start of the first interval, to the interval's end or to the middle of the piece; `running` is empty where
    unknown; `series` and `boot` are numbers from 0; `qualifies` is 1 for an interval with at least `min_drafts` drafts.
    In a piece `acceptance` is the unweighted mean over its `intervals` that qualify (over all where none does, and `qualifies`
    is 0), `low` and `high` their percentiles 10 and 90, `drafts` the sum and `running` the largest of all its intervals.
    """
    length = piece_s(log)
    if log.lines is not None and log.timed.any():
        yield from (
            _intervals_in_time(log, log.lines, min_drafts) if length is None else _pieces(log, log.lines, min_drafts, length)
        )


def _first_start(log: LogLines) -> float:
    assert log.lines is not None
    window = np.where(np.isfinite(log.lines.window_s), log.lines.window_s, 0.0)
    return float((log.lines.end - window)[log.timed].min())


def _intervals_in_time(log: LogLines, found: IntervalSeries, min_drafts: int) -> Iterator[dict[str, Any]]:
    first = _first_start(log)
    for index in np.flatnonzero(log.timed):
        drafts, running = found.drafts[index], found.running[index]
        yield {
            "hours": rounded(float(found.end[index] - first) / 3600),
            "acceptance": rounded(float(found.acceptance[index])),
            "low": None,
            "high": None,
            "intervals": 1,
            "drafts": int(drafts) if np.isfinite(drafts) else None,
            "running": int(running) if np.isfinite(running) else None,
            "series": int(found.series[index]),
            "boot": int(found.boot[index]),
            "qualifies": int(drafts >= min_drafts),
        }


def _pieces(log: LogLines, found: IntervalSeries, min_drafts: int, length: float) -> Iterator[dict[str, Any]]:
    timed = np.flatnonzero(log.timed)
    # An interval belongs to the piece that it ends in, the end included.
    piece = np.maximum(np.ceil((found.end[timed] - _first_start(log)) / length) - 1, 0.0)
    key = np.column_stack([found.series[timed], piece])
    for members in np.split(timed, np.flatnonzero(np.any(np.diff(key, axis=0) != 0, axis=1)) + 1):
        qualifying = members[found.drafts[members] >= min_drafts]
        shown = found.acceptance[qualifying if len(qualifying) else members]
        low, high = np.percentile(shown, [10, 90])
        drafts, running = float(found.drafts[members].sum()), found.running[members]
        known = running[np.isfinite(running)]
        yield {
            "hours": rounded(float(piece[np.searchsorted(timed, members[0])] + 0.5) * length / 3600),
            "acceptance": rounded(float(shown.mean())),
            "low": rounded(float(low)),
            "high": rounded(float(high)),
            "intervals": len(shown),
            "drafts": int(drafts) if np.isfinite(drafts) else None,
            "running": int(known.max()) if len(known) else None,
            "series": int(found.series[members[0]]),
            "boot": int(found.boot[members[0]]),
            "qualifies": int(len(qualifying) > 0),
        }
