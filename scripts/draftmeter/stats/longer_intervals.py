"""Lines of a short log interval put together to longer ones, so that they stand beside those of a longer log interval."""

import numpy as np

from draftmeter.stats.lines import FloatArray, Lines, LinesError, lines


def joined_lines(short: Lines, interval_s: float) -> Lines:
    """The lines of windows of `interval_s`, a multiple of the one length of `short`; raise :class:`LinesError` for another.

    The windows of a series follow each other from the start of its first line; a line belongs to the one that holds its
    middle. Counts are added up; a log without a line for some part of a window had no draft there. The requests running are
    those of the line that ends the window, unknown where it has none.
    """
    length = short.interval_s()
    times = 0 if length is None else round(interval_s / length)
    if length is None or times < 1 or abs(times * length - interval_s) > 1e-6 * interval_s:
        raise LinesError(f"window_s: found {length} s; only a whole part of {interval_s:g} s can be joined to it")
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

    return lines(
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
