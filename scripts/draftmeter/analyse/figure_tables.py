"""The tables behind the figures: rows for Figures 1 to 3."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from draftmeter.analyse.facts import rounded
from draftmeter.analyse.interval_estimates import IntervalEstimates
from draftmeter.analyse.interval_facts import CORRELATION, Fifth, chosen_decay, why_no_memory
from draftmeter.analyse.interval_series import WorkloadIntervals, first_start, piece_s
from draftmeter.analyse.tables import numbers
from draftmeter.stats.intervals import IntervalSeries
from draftmeter.stats.memory import fitted_autocorrelation

INTERVAL_COLUMNS = ["server", "boot", "attempt", "run", "offset", "start", "drafts", "acceptance"]
FIFTH_COLUMNS = ["fifth", "position", "chance", "low", "high", "equal_chances"]
TIME_COLUMNS = ["hours", "acceptance", "low", "high", "intervals", "drafts", "running", "series", "boot", "qualifies"]
CURVE_COLUMNS = ["lag_s", "correlation", "low", "high", "pairs", "fitted"]


def interval_rows(log: WorkloadIntervals, min_drafts: int) -> Iterator[dict[str, Any]]:
    """One row for each qualifying interval, for Figure 1a, with the columns of INTERVAL_COLUMNS."""
    chosen = log.table[numbers(log.table, "drafts") >= min_drafts]
    acceptance = numbers(chosen, "accepted") / numbers(chosen, "drafted")
    names = INTERVAL_COLUMNS[:-2]
    columns = [[None if pd.isna(value) else value for value in chosen[name].tolist()] for name in names]
    for *values, drafts, accepted in zip(*columns, numbers(chosen, "drafts"), acceptance, strict=True):
        yield {**dict(zip(names, values, strict=True)), "drafts": int(drafts), "acceptance": rounded(float(accepted))}


def fifth_rows(fifths: list[Fifth]) -> list[dict[str, Any]]:
    """Rows for Figure 1b, with the columns of FIFTH_COLUMNS."""
    return [
        {
            "fifth": fifth.number,
            "position": position,
            "chance": chance.value,
            "low": chance.low,
            "high": chance.high,
            "equal_chances": equal.value,
        }
        for fifth in fifths
        for position, (chance, equal) in enumerate(zip(fifth.chances, fifth.equal, strict=True), start=1)
    ]


def time_rows(log: WorkloadIntervals, min_drafts: int) -> Iterator[dict[str, Any]]:
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


def curve_rows(found: IntervalEstimates) -> Iterator[dict[str, Any]]:
    """One row for each lag that has pairs, for Figure 3, with the columns of CURVE_COLUMNS; what is unknown is empty."""
    window_s = found.log.window_s
    if why_no_memory(found) is not None or found.survey is None or window_s is None:
        return
    fit = None if found.too_short else chosen_decay(found.survey)
    pairs = {name: count for name, count in found.survey.pairs.items() if count}
    lags_s = [float(name.removeprefix(CORRELATION)) for name in pairs]
    n = found.survey.thresholds[0].intervals
    fitted = [None] * len(lags_s) if fit is None else fitted_autocorrelation(fit, lags_s, window_s, n)
    for (name, count), lag_s, model in zip(pairs.items(), lags_s, fitted, strict=True):
        one = found.survey.estimates[name]
        yield {
            "lag_s": rounded(lag_s),
            "correlation": rounded(one.value),
            "low": rounded(one.low),
            "high": rounded(one.high),
            "pairs": count,
            "fitted": rounded(model),
        }


def _intervals_in_time(log: WorkloadIntervals, found: IntervalSeries, min_drafts: int) -> Iterator[dict[str, Any]]:
    first = first_start(log)
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


def _pieces(log: WorkloadIntervals, found: IntervalSeries, min_drafts: int, length: float) -> Iterator[dict[str, Any]]:
    timed = np.flatnonzero(log.timed)
    # An interval belongs to the piece that it ends in, the end included.
    piece = np.maximum(np.ceil((found.end[timed] - first_start(log)) / length) - 1, 0.0)
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
