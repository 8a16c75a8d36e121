"""How acceptance varies over the intervals of a server's log: spread, memory, and groups of intervals by acceptance.

Intervals count one each, however many drafts they hold, except in groups, whose drafts are pooled. Acceptance of an
interval is its accepted over its draft tokens; n_i its drafts; K the draft tokens per draft.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftmeter.stats.acceptance import chance_at

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FEWEST_PAIRS = 3
# Pairs are looked for among this many lines at a time: what fits into a processor's cache is several times as fast.
LINES_AT_ONCE = 1 << 15


class IntervalsError(ValueError):
    """Intervals that cannot be summarised: what was found, what would be right."""


@dataclass(frozen=True)
class Spread:
    """Unweighted summary of the acceptance of intervals, as fractions; `sd` divides by n - 1 and is None for n = 1."""

    intervals: int
    p10: float
    p90: float
    lowest: float
    highest: float
    sd: float | None


@dataclass(frozen=True)
class Group:
    """Intervals taken together: their number, their drafts, and the pooled chance at each position."""

    intervals: int
    drafts: float
    chances: tuple[float | None, ...]


def qualifying(drafts: ArrayLike, min_drafts: int) -> BoolArray:
    """Which intervals hold at least `min_drafts` drafts; shape (n,). An unknown number (nan) does not qualify."""
    return np.asarray(np.asarray(drafts, dtype=np.float64) >= min_drafts, dtype=np.bool_)


def hours_covered(windows_s: ArrayLike) -> float:
    """Hours that intervals cover, each counting as its nominal window (shape (n,), seconds)."""
    return float(np.sum(np.asarray(windows_s, dtype=np.float64))) / 3600


def spread(acceptance: ArrayLike) -> Spread:
    """Percentiles 10 and 90 (linear interpolation), extremes, standard deviation of acceptance, shape (n,), n >= 1."""
    values = np.asarray(acceptance, dtype=np.float64)
    if len(values) == 0:
        raise IntervalsError("found no interval; the spread of acceptance needs at least one")
    p10, p90 = np.percentile(values, [10, 90])
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Spread(len(values), float(p10), float(p90), float(values.min()), float(values.max()), sd)


def accepted_variance(shares: ArrayLike) -> float:
    """Variance of the accepted tokens of one draft, V = sum_k (2k - 1) s_k - (sum_k s_k)^2, for shares through 1..K.

    From E[A] = sum_k P(A >= k) and E[A^2] = sum_k (2k - 1) P(A >= k) for A in 0..K.
    """
    s = np.asarray(shares, dtype=np.float64)
    return float(np.sum((2 * np.arange(1, len(s) + 1) - 1) * s) - s.sum() ** 2)


def sampling_sd(shares: ArrayLike, drafts: ArrayLike) -> float:
    """Standard deviation of acceptance between intervals if every draft had the same `shares` through 1..K.

    The root of the mean over intervals of V / (K^2 n_i), with V of :func:`accepted_variance`; `drafts` holds the n_i.
    """
    n = np.asarray(drafts, dtype=np.float64)
    if len(n) == 0 or np.any(n <= 0):
        raise IntervalsError("the sampling standard deviation needs at least one interval, each with a draft")
    k = len(np.asarray(shares))
    return float(np.sqrt(accepted_variance(shares) / k**2 * np.mean(1 / n)))


def variance_ratio(sd: float, sampling: float) -> float | None:
    """(sd / sampling sd)^2: 1 if every draft had the pooled chances; None where the sampling sd is 0."""
    return None if sampling == 0 else (sd / sampling) ** 2


def nearest_at_lag(sorted_times: FloatArray, lag_s: float, interval_s: float) -> tuple[IntArray, IntArray]:
    """Positions (earlier, later) of the intervals of one series that lie `lag_s` (not negative) apart within half an interval.

    `sorted_times` (seconds, shape (n,)) do not fall. Each interval is paired with the nearest one to its time plus the lag;
    where the log has a gap there is no pair.
    """
    # Unix seconds as floats are good to a quarter of a microsecond: an exact half interval must still count.
    tolerance = interval_s / 2 + 1e-6
    pairs = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for first in range(0, len(sorted_times), LINES_AT_ONCE):
        times = sorted_times[first : first + LINES_AT_ONCE]
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
    """Equal groups of intervals from the lowest acceptance to the highest, the drafts of each pooled.

    Shapes (n,), (n,) and (n, K). Group sizes differ by one at most; equal acceptances keep their order. The groups are
    selected on the outcome: even equal chances would differ between them, by as much as
    `draftmeter.stats.selection.expected_groups` says.
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
