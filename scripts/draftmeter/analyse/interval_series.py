"""The intervals of a workload as the statistics take them: a series in time, beside the rows that
they come from."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.counts import recovered
from draftmeter.analyse.tables import by_position, numbers, run_labels
from draftmeter.stats.intervals import IntervalSeries, IntervalsError, interval_series, joined_intervals

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# More intervals than this would be a grey smear in a picture: so many pieces of time at most are shown in their place, or
# more where a study is longer than so many weeks.
MOST_SINGLE = 1500
MOST_PIECES = 400
PIECES_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
NO_POSITION = "a line gives no acceptance by position"
NO_LINE = "the log has no line with drafts"
# A reader that knows only rounded numbers may get counts that contradict each other.
CONTRADICTORY = "; see the failed cross-checks"
NO_CATEGORY = ""
LEAST_ANSWERING = 0.9


@dataclass(frozen=True)
class WorkloadIntervals:
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


def workload_intervals(intervals: pd.DataFrame, k: int) -> WorkloadIntervals:
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
    return WorkloadIntervals(
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


def joined(log: WorkloadIntervals, interval_s: float) -> WorkloadIntervals | None:
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
    return WorkloadIntervals(
        table=pd.DataFrame(columns),
        lines=found,
        unknown="",
        timed=np.ones(n, dtype=bool),
        exact=np.full(n, bool(log.exact.all())),
        counted=np.full(n, bool(log.counted.all())),
        note=f", joined to {interval_s:g} s",
    )


def piece_s(log: WorkloadIntervals) -> float | None:
    """Seconds of the pieces of time that Figure 2 shows; None where it shows every interval whose time is known."""
    if log.lines is None or int(log.timed.sum()) <= MOST_SINGLE:
        return None
    span = float(log.lines.end[log.timed].max()) - first_start(log)
    return float(next((length for length in PIECES_S if length * MOST_PIECES >= span), PIECES_S[-1]))


def first_start(log: WorkloadIntervals) -> float:
    """When the first interval whose time is known began, in seconds of the clock of `log.lines`."""
    assert log.lines is not None
    window = np.where(np.isfinite(log.lines.window_s), log.lines.window_s, 0.0)
    return float((log.lines.end - window)[log.timed].min())


def categories_of(log: WorkloadIntervals, requests: pd.DataFrame) -> NDArray[np.str_] | None:
    """For each interval the category that was answered for the longest time in it, all its requests together; shape (n,).

    The stamps of a log are whole seconds: the few intervals that no answer seems to fall in are a
    group of their own, NO_CATEGORY.
    Returns None where there are no two categories, where times are not known, or where that happens often.
    """
    names = sorted(set(requests["category"].dropna().astype(str)))
    if log.lines is None or len(names) < 2 or not log.timed.all() or log.window_s is None:
        return None
    first, last = numbers(requests, "t_first"), numbers(requests, "t_last")
    answered = np.isfinite(first) & np.isfinite(last)
    origin = float(log.lines.end.min())
    end = log.lines.end - origin
    times = np.empty((len(log), len(names)))
    for index, name in enumerate(names):
        chosen = answered & (requests["category"] == name).to_numpy(dtype=bool)
        until_end = _answering(first[chosen] - origin, last[chosen] - origin, end)
        times[:, index] = until_end - _answering(first[chosen] - origin, last[chosen] - origin, end - log.window_s)
    answering = times.max(axis=1) > 0
    if answering.mean() < LEAST_ANSWERING:
        return None
    return np.asarray(np.where(answering, np.array(names, dtype=str)[times.argmax(axis=1)], NO_CATEGORY), dtype=np.str_)


def _answering(first: FloatArray, last: FloatArray, until: FloatArray) -> FloatArray:
    """Seconds that the requests were answered for until each of some moments, all together; shape of `until`."""
    return _past(first, until) - _past(last, until)


def _past(moments: FloatArray, until: FloatArray) -> FloatArray:
    """The sum over `moments` of the time from each to `until`, for those before it."""
    ordered = np.sort(moments)
    before = np.searchsorted(ordered, until)
    return np.asarray(before * until - np.concatenate([[0.0], np.cumsum(ordered)])[before], dtype=np.float64)
