"""Acceptance and load: means by running requests, their range, and a regression with errors that allow for memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped]
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from draftmeter.stats.resample import BlockEstimate, Joint

IntArray = NDArray[np.int64]

MOST_RUNNING = 6
RUNNING_NAMES = (*(str(number) for number in range(MOST_RUNNING)), f"{MOST_RUNNING}+")
FEWEST_LEVELS = 2
# 1 / integral(kernel^2) of the Bartlett kernel.
FREEDOM_PER_LAG = 1.5


class LoadError(ValueError):
    """Arrays that no regression can be made of: what was found, what would be right."""


@dataclass(frozen=True)
class RangeOfMeans:
    """Largest less smallest of several means, and an interval for the true range.

    `high` is the largest end of the pairs' intervals, `low` the largest least difference of any pair at a level shared by
    all pairs: both hold at the confidence asked for.
    """

    value: float | None
    low: float | None
    high: float | None
    means: tuple[str, ...]
    """Those that have an interval: the range is theirs."""
    left_out: tuple[str, ...]
    unknown: str | None


@dataclass(frozen=True)
class Regression:
    """Acceptance on running requests, by least squares; HAC standard errors (Newey and West, Bartlett kernel)."""

    slope: float
    """Change for each further running request."""
    slope_low: float
    slope_high: float
    n: int
    lags: int
    """Bandwidth of the covariance, in cells of lines."""


@dataclass(frozen=True)
class Explained:
    """Variance between the means of groups of lines (weighted by their lines), as a share of the true between-line variance.

    The noise of the means is subtracted; an interval that starts at 0 says that the groups may explain nothing.
    """

    share: float | None
    low: float | None
    high: float | None
    groups: tuple[str, ...]
    unknown: str | None


def running_group(running: ArrayLike) -> IntArray:
    """0, 1, ... 5, and 6 for six or more requests running at an interval's end; -1 where unknown. Shape (n,)."""
    values = np.asarray(running, dtype=np.float64)
    known = np.isfinite(values)
    return np.where(known, np.minimum(np.where(known, values, 0), MOST_RUNNING), -1).astype(np.int64)


def range_of_means(estimates: Mapping[str, BlockEstimate], names: tuple[str, ...], confidence: float) -> RangeOfMeans:
    """The range of the means `names`, from their estimates and those of their differences `<later> - <earlier>`."""
    known = tuple(name for name in names if estimates[name].low is not None)
    left_out = tuple(name for name in names if name not in known)
    pairs = [estimates[f"{b} - {a}"] for i, a in enumerate(known) for b in known[i + 1 :]]
    values = [float(estimates[name].value or 0.0) for name in known]
    if len(known) < FEWEST_LEVELS or any(pair.low is None for pair in pairs):
        reason = f"of {len(names)} means {len(known)} with an interval; a range needs two, and their differences"
        return RangeOfMeans(None, None, None, known, left_out, reason)
    level = (1 + confidence) / 2
    shared = 1 - (1 - level) / len(pairs)
    low = high = 0.0
    for pair in pairs:
        size, error, freedom = abs(float(pair.value or 0)), float(pair.standard_error or 0), float(pair.freedom or 1)
        high = max(high, size + float(stats.t.ppf(level, freedom)) * error)
        low = max(low, size - float(stats.t.ppf(shared, freedom)) * error)
    return RangeOfMeans(max(values) - min(values), low, high, known, left_out, None)


def explained_share(joint: Joint, names: tuple[str, ...], true_variance: float, confidence: float) -> Explained:
    """The share of `true_variance` (between lines) that the groups `names` of a means part explain.

    Q = sum of w (m - m.)^2 with the groups' lines as weights w; its noise, sum of w var(m) - var(m.), is subtracted, and its
    variance is that of a quadratic form in normal means: 2 tr(A C A C) + 4 m' A C A m.
    """
    every = tuple(joint.estimates)
    known = tuple(name for name in names if joint.estimates[name].low is not None)
    if len(known) < FEWEST_LEVELS or true_variance <= 0:
        reason = "no variance of the true acceptance to explain"
        if len(known) < FEWEST_LEVELS:
            reason = f"of {len(names)} groups {len(known)} with an interval of their mean; at least two are needed"
        return Explained(None, None, None, known, reason)
    index = [every.index(name) for name in known]
    means = np.array([joint.estimates[name].value for name in known], dtype=np.float64)
    lines = np.array([joint.estimates[name].n for name in known], dtype=np.float64)
    w = lines / lines.sum()
    form = np.diag(w) - np.outer(w, w)
    noise = form @ joint.covariance[np.ix_(index, index)]
    found = float(means @ form @ means) - float(np.trace(noise))
    variance = 2 * float(np.trace(noise @ noise)) + 4 * float(means @ noise @ form @ means)
    half = float(stats.t.ppf((1 + confidence) / 2, joint.freedom[index].min())) * np.sqrt(max(variance, 0.0))
    share, low, high = (float(min(max(end / true_variance, 0.0), 1.0)) for end in (found, found - half, found + half))
    return Explained(share, low, high, known, None)


def regression_on_running(
    acceptance: ArrayLike, running: ArrayLike, cell: ArrayLike, lags: float, confidence: float
) -> Regression | None:
    """Least squares of acceptance on running requests, shape (n,), in order of time.

    `cell` numbers the cells of lines, without a gap (shape (n,), not falling; one line each, or more where lines are many):
    scores are summed over each, and the covariance has the Bartlett kernel over `lags` cells (Newey and West 1987 on sums, as
    Driscoll and Kraay 1998). The interval is a t interval with 1.5 cells / lags degrees of freedom, what that kernel is
    worth. None where running or acceptance does not vary.
    """
    y, x = (np.asarray(values, dtype=np.float64) for values in (acceptance, running))
    cells = np.asarray(cell, dtype=np.int64)
    if not (x.shape == y.shape == cells.shape) or not np.all(np.isfinite(x)) or not np.all(np.isfinite(y)):
        raise LoadError(f"found acceptance {y.shape}, running {x.shape}, cells {cells.shape}; needs one known value a line")
    if len(x) and np.any((np.diff(cells, prepend=cells[0]) < 0) | (np.diff(cells, prepend=cells[0]) > 1)):
        raise LoadError("cell: found numbers that fall or leave some out; needs consecutive numbers in order of time")
    number = int(cells[-1] - cells[0]) + 1 if len(x) else 0
    if number <= FEWEST_LEVELS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    used = int(min(max(round(lags), 1), number - 1))
    design = np.column_stack([np.ones(len(x)), x])
    fit = OLS(y, design).fit(cov_type="hac-groupsum", cov_kwds={"time": cells - cells[0], "maxlags": used})
    slope, error = float(fit.params[1]), float(fit.bse[1])
    half = float(stats.t.ppf((1 + confidence) / 2, max(FREEDOM_PER_LAG * number / used, 1.0))) * error
    return Regression(
        slope=slope,
        slope_low=slope - half,
        slope_high=slope + half,
        n=len(x),
        lags=used,
    )
