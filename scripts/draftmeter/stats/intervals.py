"""Interval series: the intervals of a server's log as arrays, and how acceptance varies over them.

Intervals count one each, however many drafts they hold, except in groups, whose drafts are pooled.
Acceptance of an interval is its accepted over its draft tokens; n_i its drafts; K the draft tokens
per draft.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from draftmeter.stats.acceptance import BoolArray, FloatArray, IntArray, accepted_variance, chance_at

FEWEST_PAIRS = 3
# Pairs are looked for among this many intervals at a time: what fits into a processor's cache is
# several times as fast.
INTERVALS_AT_ONCE = 1 << 15


class IntervalsError(ValueError):
    """Arrays that are no interval series, or that cannot be summarised.

    Says which, what was found, what would be right.
    """


@dataclass(frozen=True)
class IntervalSeries:
    """Intervals with drafts, sorted by boot, log and time: n of them, K positions.

    Made by :func:`interval_series`.
    """

    end: FloatArray = field(repr=False)
    """Seconds."""
    series: IntArray = field(repr=False)
    """Number of the continuous log that an interval stands in: lags never cross to another."""
    boot: IntArray = field(repr=False)
    """Number of the start of the server; a continuous log belongs to one boot."""
    drafts: FloatArray = field(repr=False)
    """nan where unknown: such an interval never qualifies."""
    drafted: FloatArray = field(repr=False)
    accepted: FloatArray = field(repr=False)
    accepted_at: FloatArray | None = field(repr=False)
    """Drafts accepted through 1..K, shape (n, K); None where an interval does not say."""
    running: FloatArray = field(repr=False)
    """Requests running at the interval's end; nan where unknown."""
    window_s: FloatArray = field(repr=False)
    """Length of the interval; nan where unknown."""
    acceptance: FloatArray = field(repr=False)
    """Accepted over draft tokens."""

    def __len__(self) -> int:
        """Number of intervals."""
        return len(self.end)

    @property
    def k(self) -> int | None:
        """Positions, where intervals say them."""
        return None if self.accepted_at is None else self.accepted_at.shape[1]

    @property
    def tokens_per_step(self) -> FloatArray:
        """1 + accepted / drafts, shape (n,); nan where drafts are unknown."""
        return 1 + self.accepted / self.drafts

    @property
    def step_rate(self) -> FloatArray:
        """Drafts per second of the window, shape (n,); nan where drafts or window are unknown."""
        return self.drafts / self.window_s

    def at_least(self, min_drafts: int) -> BoolArray:
        """Which intervals hold at least `min_drafts` drafts, shape (n,)."""
        return qualifying(self.drafts, min_drafts)

    def interval_s(self) -> float | None:
        """The one length of all intervals; None where it is unknown or not one."""
        found = np.unique(self.window_s)
        return float(found[0]) if len(found) == 1 and np.isfinite(found[0]) else None


@dataclass(frozen=True)
class Spread:
    """Unweighted summary of the acceptance of intervals, as fractions.

    `sd` divides by n - 1, and is None for n = 1.
    """

    intervals: int
    p10: float
    p90: float
    lowest: float
    highest: float
    sd: float | None


@dataclass(frozen=True)
class Group:
    """Intervals taken together: their number, drafts, and the pooled chance at each position."""

    intervals: int
    drafts: float
    chances: tuple[float | None, ...]


def interval_series(  # noqa: PLR0913 - the columns of a table
    end: ArrayLike,
    drafts: ArrayLike,
    accepted: ArrayLike,
    drafted: ArrayLike,
    *,
    window_s: ArrayLike,
    accepted_at: ArrayLike | None = None,
    running: ArrayLike | None = None,
    series: ArrayLike | None = None,
    boot: ArrayLike | None = None,
) -> IntervalSeries:
    """Check and sort the arrays; intervals without a draft token are left out.

    All have shape (n,) or, `window_s`, may be one number; `accepted_at` has shape (n, K). `series`
    and `boot` are labels of any kind (default: one). Raises :class:`IntervalsError` for shapes that
    differ, for counts that are negative or larger than what they are part of, and for a time or
    token count that is not finite.
    """
    at = np.asarray(end, dtype=np.float64)
    n = len(at)
    columns = {"drafts": drafts, "accepted": accepted, "drafted": drafted, "running": np.nan if running is None else running}
    values = {name: _column(name, column, n) for name, column in columns.items()}
    windows = _column("window_s", window_s, n)
    through = None if accepted_at is None else np.asarray(accepted_at, dtype=np.float64)
    if through is not None and (through.ndim != 2 or len(through) != n or through.shape[1] < 1):
        raise IntervalsError(f"accepted_at: found shape {through.shape}; needs ({n}, K) with K >= 1")
    boots, series_of = _labels("boot", boot, n), _labels("series", series, n)
    _check(at, values, through)
    keep = np.flatnonzero(values["drafted"] > 0)
    order = keep[np.lexsort((at[keep], series_of[keep], boots[keep]))]
    if len(order) and np.array_equal(order, np.arange(n)):
        order = slice(None)
    return IntervalSeries(
        end=at[order],
        series=series_of[order],
        boot=boots[order],
        drafts=values["drafts"][order],
        drafted=values["drafted"][order],
        accepted=values["accepted"][order],
        accepted_at=None if through is None else through[order],
        running=values["running"][order],
        window_s=windows[order],
        acceptance=values["accepted"][order] / values["drafted"][order],
    )


def joined_intervals(short: IntervalSeries, interval_s: float) -> IntervalSeries:
    """Intervals of `interval_s`, a multiple of the one length of `short`, made of its intervals.

    So intervals of a short log interval stand beside those of a longer one. The long windows of a
    continuous log follow each other from the start of its first interval; an interval belongs to
    the one that holds its middle. Counts are added up; a log without an entry for some part of a
    window had no draft there. The requests running are those of the entry that ends the window,
    unknown where it has none. Raises :class:`IntervalsError` for a length that does not fit.
    """
    length = short.interval_s()
    times = 0 if length is None else round(interval_s / length)
    if length is None or times < 1 or abs(times * length - interval_s) > 1e-6 * interval_s:
        raise IntervalsError(f"window_s: found {length} s; only a whole part of {interval_s:g} s can be joined to it")
    if len(short) == 0:
        return short
    first = np.flatnonzero(np.diff(short.series, prepend=-1))
    start = np.repeat(short.end[first] - length, np.diff(first, append=len(short)))
    part = np.floor((short.end - length / 2 - start) / length + 1e-9).astype(np.int64)
    window = part // times
    new = np.flatnonzero((np.diff(window, prepend=-1) != 0) | (np.diff(short.series, prepend=-1) != 0))
    last = np.append(new[1:], len(short)) - 1

    def total(column: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(column, new, axis=0), dtype=np.float64)

    return interval_series(
        start[new] + (window[new] + 1) * interval_s,
        total(short.drafts),
        total(short.accepted),
        total(short.drafted),
        window_s=interval_s,
        accepted_at=None if short.accepted_at is None else total(short.accepted_at),
        running=np.where(part[last] % times == times - 1, short.running[last], np.nan),
        series=short.series[new],
        boot=short.boot[new],
    )


def qualifying(drafts: ArrayLike, min_drafts: int) -> BoolArray:
    """Which intervals hold at least `min_drafts` drafts, shape (n,); where unknown (nan), not."""
    return np.asarray(np.asarray(drafts, dtype=np.float64) >= min_drafts, dtype=np.bool_)


def hours_covered(windows_s: ArrayLike) -> float:
    """Hours that intervals cover, each counting as its nominal window (shape (n,), seconds)."""
    return float(np.sum(np.asarray(windows_s, dtype=np.float64))) / 3600


def spread(acceptance: ArrayLike) -> Spread:
    """Percentiles 10 and 90, extremes and standard deviation of acceptance, shape (n,), n >= 1.

    Percentiles are interpolated linearly.
    """
    values = np.asarray(acceptance, dtype=np.float64)
    if len(values) == 0:
        raise IntervalsError("found no interval; the spread of acceptance needs at least one")
    p10, p90 = np.percentile(values, [10, 90])
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Spread(len(values), float(p10), float(p90), float(values.min()), float(values.max()), sd)


def sampling_sd(shares: ArrayLike, drafts: ArrayLike) -> float:
    """Standard deviation of acceptance between intervals if every draft had the same `shares`.

    The root of the mean over intervals of V / (K^2 n_i), with V of
    :func:`draftmeter.stats.acceptance.accepted_variance`; `drafts` holds the n_i.
    """
    n = np.asarray(drafts, dtype=np.float64)
    if len(n) == 0 or np.any(n <= 0):
        raise IntervalsError("the sampling standard deviation needs at least one interval, each with a draft")
    k = len(np.asarray(shares))
    return float(np.sqrt(accepted_variance(shares) / k**2 * np.mean(1 / n)))


def variance_ratio(sd: float, sampling: float) -> float | None:
    """(sd / sampling sd)^2: 1 if every draft had the pooled chances; None if the latter is 0."""
    return None if sampling == 0 else (sd / sampling) ** 2


def nearest_at_lag(sorted_times: FloatArray, lag_s: float, interval_s: float) -> tuple[IntArray, IntArray]:
    """Places (earlier, later) of the intervals of one log that lie `lag_s` (not negative) apart.

    Within half an interval. `sorted_times` (seconds, shape (n,)) do not fall. Each interval is
    paired with the nearest one to its time plus the lag; where the log has a gap there is no pair.
    """
    # Unix seconds as floats are good to a quarter of a microsecond: an exact half interval must
    # still count.
    tolerance = interval_s / 2 + 1e-6
    pairs = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for first in range(0, len(sorted_times), INTERVALS_AT_ONCE):
        times = sorted_times[first : first + INTERVALS_AT_ONCE]
        wanted = times + lag_s
        last = int(np.searchsorted(sorted_times, wanted[-1], side="right"))
        nearby = sorted_times[first : last + 1]
        right = np.searchsorted(nearby, wanted)
        after = np.abs(nearby[np.minimum(right, len(nearby) - 1)] - wanted)
        before = np.abs(wanted - nearby[np.maximum(right - 1, 0)])
        nearest = np.where((before <= after) & (right > 0), right - 1, np.minimum(right, len(nearby) - 1))
        earlier = np.flatnonzero((np.minimum(before, after) <= tolerance) & (nearest != np.arange(len(times))))
        pairs.append((first + earlier, first + nearest[earlier]))
    earlier, later = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    return earlier, later


def groups_by_acceptance(acceptance: ArrayLike, drafts: ArrayLike, accepted_at: ArrayLike, groups: int = 5) -> tuple[Group, ...]:
    """Equal groups of intervals from the lowest acceptance to the highest, their drafts pooled.

    Shapes (n,), (n,) and (n, K). Group sizes differ by one at most; equal acceptances keep their
    order. The groups are selected on the outcome: even equal chances would differ between them, by
    as much as `draftmeter.stats.beyond_chance.expected_groups` says.
    """
    n = np.asarray(drafts, dtype=np.float64)
    counts = np.asarray(accepted_at, dtype=np.float64)
    if len(n) < groups:
        raise IntervalsError(f"found {len(n)} intervals; {groups} groups need at least {groups}")
    order = np.argsort(np.asarray(acceptance, dtype=np.float64), kind="stable")
    result = []
    for members in np.array_split(order, groups):
        chances = chance_at(float(n[members].sum()), counts[members].sum(axis=0))
        result.append(Group(len(members), float(n[members].sum()), tuple(chance.value for chance in chances)))
    return tuple(result)


def _column(name: str, column: ArrayLike, n: int) -> FloatArray:
    values = np.asarray(column, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise IntervalsError(f"{name}: found shape {values.shape}; needs ({n},), like the times")
    return values


def _labels(name: str, labels: ArrayLike | None, n: int) -> IntArray:
    if labels is None:
        return np.zeros(n, dtype=np.int64)
    given = np.asarray(labels)
    if given.shape != (n,):
        raise IntervalsError(f"{name}: found shape {given.shape}; needs ({n},), like the times")
    return np.unique(given, return_inverse=True)[1].astype(np.int64)


def _check(end: FloatArray, values: dict[str, FloatArray], accepted_at: FloatArray | None) -> None:
    for name in ("accepted", "drafted"):
        if not np.all(np.isfinite(values[name])):
            raise IntervalsError(f"{name}: found a value that is not finite; every line says it")
    if not np.all(np.isfinite(end)):
        raise IntervalsError("end: found a time that is not finite; lines without a time have no place in a series")
    wrong = (values["accepted"] < 0) | (values["accepted"] > values["drafted"]) | (values["drafts"] < 0)
    wrong |= values["drafts"] > values["drafted"]
    if wrong.any():
        first = int(np.argmax(wrong))
        found = ", ".join(f"{values[name][first]:g} {name}" for name in ("drafts", "drafted", "accepted"))
        raise IntervalsError(f"line {first}: found {found}; needs 0 <= accepted <= drafted and 0 <= drafts <= drafted")
    if accepted_at is not None:
        if not np.all(np.isfinite(accepted_at)):
            raise IntervalsError("accepted_at: found a value that is not finite; give None where a line does not say")
        rises = np.any(np.diff(accepted_at, axis=1) > 0, axis=1) | (accepted_at[:, -1] < 0)
        rises |= accepted_at[:, 0] > values["drafts"]
        if rises.any():
            first = int(np.argmax(rises))
            raise IntervalsError(
                f"line {first}: found {values['drafts'][first]:g} drafts, accepted through {accepted_at[first].tolist()}; "
                "counts cannot be negative, nor rise along the draft"
            )
