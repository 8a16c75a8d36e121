"""The lines of a server's log as arrays: what every statistic of intervals starts from."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class LinesError(ValueError):
    """Arrays that are no lines of a log: which, what was found, what would be right."""


@dataclass(frozen=True)
class Lines:
    """Intervals with drafts, sorted by boot, series and time: n of them, K positions. Made by :func:`lines`."""

    end: FloatArray = field(repr=False)
    """Seconds."""
    series: IntArray = field(repr=False)
    """Number of the continuous log that a line stands in: lags never cross from one to another."""
    boot: IntArray = field(repr=False)
    """Number of the start of the server; a series belongs to one boot."""
    drafts: FloatArray = field(repr=False)
    """nan where unknown: such a line never qualifies."""
    drafted: FloatArray = field(repr=False)
    accepted: FloatArray = field(repr=False)
    accepted_at: FloatArray | None = field(repr=False)
    """Drafts accepted through 1..K, shape (n, K); None where a line does not say."""
    running: FloatArray = field(repr=False)
    """Requests running at the interval's end; nan where unknown."""
    window_s: FloatArray = field(repr=False)
    """Length of the interval; nan where unknown."""
    acceptance: FloatArray = field(repr=False)
    """Accepted over draft tokens."""

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.end)

    @property
    def k(self) -> int | None:
        """Positions, where lines say them."""
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
        """Which lines hold at least `min_drafts` drafts, shape (n,)."""
        return np.asarray(self.drafts >= min_drafts, dtype=np.bool_)

    def interval_s(self) -> float | None:
        """The one length of all intervals; None where it is unknown or not one."""
        found = np.unique(self.window_s)
        return float(found[0]) if len(found) == 1 and np.isfinite(found[0]) else None


def lines(  # noqa: PLR0913 - the columns of a table
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
) -> Lines:
    """Check and sort the arrays; lines without a draft token are left out.

    All have shape (n,) or, `window_s`, may be one number; `accepted_at` has shape (n, K). `series` and `boot` are labels of
    any kind (default: one). Raises :class:`LinesError` for shapes that differ, for counts that are negative or larger than
    what they are part of, and for a time or token count that is not finite.
    """
    at = np.asarray(end, dtype=np.float64)
    n = len(at)
    columns = {"drafts": drafts, "accepted": accepted, "drafted": drafted, "running": np.nan if running is None else running}
    values = {name: _column(name, column, n) for name, column in columns.items()}
    windows = _column("window_s", window_s, n)
    through = None if accepted_at is None else np.asarray(accepted_at, dtype=np.float64)
    if through is not None and (through.ndim != 2 or len(through) != n or through.shape[1] < 1):
        raise LinesError(f"accepted_at: found shape {through.shape}; needs ({n}, K) with K >= 1")
    boots, series_of = _labels("boot", boot, n), _labels("series", series, n)
    _check(at, values, through)
    keep = np.flatnonzero(values["drafted"] > 0)
    order = keep[np.lexsort((at[keep], series_of[keep], boots[keep]))]
    if len(order) and np.array_equal(order, np.arange(n)):
        order = slice(None)
    return Lines(
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


def _column(name: str, column: ArrayLike, n: int) -> FloatArray:
    values = np.asarray(column, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise LinesError(f"{name}: found shape {values.shape}; needs ({n},), like the times")
    return values


def _labels(name: str, labels: ArrayLike | None, n: int) -> IntArray:
    if labels is None:
        return np.zeros(n, dtype=np.int64)
    given = np.asarray(labels)
    if given.shape != (n,):
        raise LinesError(f"{name}: found shape {given.shape}; needs ({n},), like the times")
    return np.unique(given, return_inverse=True)[1].astype(np.int64)


def _check(end: FloatArray, values: dict[str, FloatArray], accepted_at: FloatArray | None) -> None:
    for name in ("accepted", "drafted"):
        if not np.all(np.isfinite(values[name])):
            raise LinesError(f"{name}: found a value that is not finite; every line says it")
    if not np.all(np.isfinite(end)):
        raise LinesError("end: found a time that is not finite; lines without a time have no place in a series")
    wrong = (values["accepted"] < 0) | (values["accepted"] > values["drafted"]) | (values["drafts"] < 0)
    wrong |= values["drafts"] > values["drafted"]
    if wrong.any():
        first = int(np.argmax(wrong))
        found = ", ".join(f"{values[name][first]:g} {name}" for name in ("drafts", "drafted", "accepted"))
        raise LinesError(f"line {first}: found {found}; needs 0 <= accepted <= drafted and 0 <= drafts <= drafted")
    if accepted_at is not None:
        if not np.all(np.isfinite(accepted_at)):
            raise LinesError("accepted_at: found a value that is not finite; give None where a line does not say")
        rises = np.any(np.diff(accepted_at, axis=1) > 0, axis=1) | (accepted_at[:, -1] < 0)
        rises |= accepted_at[:, 0] > values["drafts"]
        if rises.any():
            first = int(np.argmax(rises))
            raise LinesError(
                f"line {first}: found {values['drafts'][first]:g} drafts, accepted through {accepted_at[first].tolist()}; "
                "counts cannot be negative, nor rise along the draft"
            )
