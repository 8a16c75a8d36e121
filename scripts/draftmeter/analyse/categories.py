"""Which category of requests an interval was mostly made of, where own requests say their category and their times."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.lines import LogLines
from draftmeter.analyse.tables import numbers

FloatArray = NDArray[np.float64]

NONE = ""
LEAST_ANSWERING = 0.9


def categories_of(log: LogLines, requests: pd.DataFrame) -> NDArray[np.str_] | None:
    """For each interval the category that was answered for the longest time in it, all its requests together; shape (n,).

    The stamps of a log are whole seconds: the few intervals that no answer seems to fall in are a group of their own, NONE.
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
    return np.asarray(np.where(answering, np.array(names, dtype=str)[times.argmax(axis=1)], NONE), dtype=np.str_)


def _answering(first: FloatArray, last: FloatArray, until: FloatArray) -> FloatArray:
    """Seconds that the requests were answered for until each of some moments, all together; shape of `until`."""
    return _past(first, until) - _past(last, until)


def _past(moments: FloatArray, until: FloatArray) -> FloatArray:
    """The sum over `moments` of the time from each to `until`, for those before it."""
    ordered = np.sort(moments)
    before = np.searchsorted(ordered, until)
    return np.asarray(before * until - np.concatenate([[0.0], np.cumsum(ordered)])[before], dtype=np.float64)
