"""Acceptance and load: means by running requests, their range, and a regression.

The errors of the regression allow for the memory of acceptance and of load.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import IntArray
from draftmeter.stats.estimate import Estimate, t_estimate, t_quantile
from draftmeter.stats.resample import Joint

MOST_RUNNING = 6
RUNNING_NAMES = (*(str(number) for number in range(MOST_RUNNING)), f"{MOST_RUNNING}+")
FEWEST_LEVELS = 2
# 1 / integral(kernel^2) of the Bartlett kernel.
FREEDOM_PER_LAG = 1.5


class LoadError(ValueError):
    """Arrays that no regression can be made of: what was found, what would be right."""


@dataclass(frozen=True)
class RangeOfMeans:
    """Largest less smallest of several means.

    The upper end of its confidence interval is the largest one of all differences of two means, the
    lower end the largest least difference of any two at a level that all of them share: both hold
    at the confidence asked for.
    """

    estimate: Estimate
    """Its `n` counts the intervals of the means."""
    means: tuple[str, ...]
    """Those that have a confidence interval: the range is theirs."""
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Regression:
    """Acceptance on running requests, by least squares.

    HAC standard errors (Newey and West, Bartlett kernel).
    """

    slope: Estimate
    """Change for each further running request."""
    lags: int
    """Bandwidth of the covariance, in cells of intervals."""


def running_group(running: ArrayLike) -> IntArray:
    """0, 1, ... 5, and 6 for six or more requests running, shape (n,); -1 where unknown."""
    values = np.asarray(running, dtype=np.float64)
    known = np.isfinite(values)
    return np.where(known, np.minimum(np.where(known, values, 0), MOST_RUNNING), -1).astype(np.int64)


def range_of_means(estimates: Mapping[str, Estimate], names: tuple[str, ...], confidence: float) -> RangeOfMeans:
    """The range of the means `names`, from their estimates and those of their differences.

    The differences are named `<later> - <earlier>`.
    """
    known = tuple(name for name in names if estimates[name].low is not None)
    left_out = tuple(name for name in names if name not in known)
    n = sum(estimates[name].n for name in known)
    differences = [estimates[f"{b} - {a}"] for i, a in enumerate(known) for b in known[i + 1 :]]
    if len(known) < FEWEST_LEVELS or any(one.low is None for one in differences):
        reason = f"of {len(names)} means {len(known)} with an interval; a range needs two, and their differences"
        return RangeOfMeans(Estimate(None, None, None, n, reason), known, left_out)
    values = [float(estimates[name].value or 0.0) for name in known]
    shared = 1 - (1 - confidence) / len(differences)
    low = high = 0.0
    for one in differences:
        size, error, freedom = abs(float(one.value or 0)), float(one.standard_error or 0), float(one.freedom or 1)
        high = max(high, size + t_quantile(confidence, freedom) * error)
        low = max(low, size - t_quantile(shared, freedom) * error)
    method = f"{estimates[known[0]].method}, of the differences of all pairs of means"
    return RangeOfMeans(Estimate(max(values) - min(values), low, high, n, method=method), known, left_out)


def explained_share(joint: Joint, names: tuple[str, ...], true_variance: float, confidence: float) -> Estimate:
    """The share of the variance of true acceptance that the groups `names` explain.

    `true_variance` is that between intervals, `joint` holds the means of the groups. Q = sum of
    w (m - m.)^2 is their variance, with the groups' numbers of intervals as weights w; its noise,
    sum of w var(m) - var(m.), is subtracted, and its variance is that of a quadratic form in normal
    means: 2 tr(A C A C) + 4 m' A C A m. A confidence interval that starts at 0 says that the groups
    may explain nothing.
    """
    every = tuple(joint.estimates)
    known = tuple(name for name in names if joint.estimates[name].low is not None)
    n = sum(joint.estimates[name].n for name in known)
    if len(known) < FEWEST_LEVELS:
        reason = f"of {len(names)} groups {len(known)} with an interval of their mean; at least two are needed"
        return Estimate(None, None, None, n, reason)
    if true_variance <= 0:
        return Estimate(None, None, None, n, "no variance of the true acceptance to explain")
    index = [every.index(name) for name in known]
    means = np.array([joint.estimates[name].value for name in known], dtype=np.float64)
    intervals = np.array([joint.estimates[name].n for name in known], dtype=np.float64)
    w = intervals / intervals.sum()
    form = np.diag(w) - np.outer(w, w)
    noise = form @ joint.covariance[np.ix_(index, index)]
    found = float(means @ form @ means) - float(np.trace(noise))
    variance = 2 * float(np.trace(noise @ noise)) + 4 * float(means @ noise @ form @ means)
    half = t_quantile(confidence, float(joint.freedom[index].min())) * np.sqrt(max(variance, 0.0))
    share, low, high = (float(min(max(end / true_variance, 0.0), 1.0)) for end in (found, found - half, found + half))
    method = f"{confidence:.0%} interval from the covariance of the means over resampled blocks, noise of the means subtracted"
    return Estimate(share, low, high, n, method=method)


def regression_on_running(
    acceptance: ArrayLike, running: ArrayLike, cell: ArrayLike, lags: float, confidence: float
) -> Regression | None:
    """Least squares of acceptance on running requests, shape (n,), in order of time.

    `cell` numbers the cells of intervals, without a gap (shape (n,), not falling; one interval
    each, or more where intervals are many): scores are summed over each, and the covariance has the
    Bartlett kernel over `lags` cells (Newey and West 1987 on sums, as Driscoll and Kraay 1998). The
    t interval has 1.5 cells / lags degrees of freedom, what that kernel is worth. None where
    running or acceptance does not vary.
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
    freedom = max(FREEDOM_PER_LAG * number / used, 1.0)
    method = f"{confidence:.0%} t interval, standard errors of Newey and West over {used} cells of lines"
    return Regression(t_estimate(float(fit.params[1]), float(fit.bse[1]), freedom, confidence, len(x), method), used)
