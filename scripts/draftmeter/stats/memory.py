"""The memory of acceptance: its correlation with itself at many lags, and how that decays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import optimize, stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import BoolArray, FloatArray
from draftmeter.stats.blocks import Blocks
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.intervals import FEWEST_PAIRS, IntervalSeries, nearest_at_lag
from draftmeter.stats.resample import FISHER, Sums
from draftmeter.stats.sums import correlations

# Two components have four parameters.
FEWEST_LAGS = 6
# No time is longer than this many of the longest lag: it could not be told from a constant.
REACH = 8.0
FIT_ROUNDS = 2
# A confidence interval of a time that spans e^50 either way says nothing, and must not overflow.
MOST_LOG = 50.0
# Of the variance: how much of it a mean of few intervals can take away.
MOST_LOST = 0.5
NO_COMPONENT = "no interval: this part of the variance cannot be told from none"


@dataclass(frozen=True)
class Component:
    """A part of the variance of acceptance that is forgotten exponentially.

    Confidence intervals are from the curvature of the fit. The time has none where the weight
    cannot be told from 0: a component that may not be there has no time.
    """

    weight: Estimate
    """Part of the variance."""
    time_s: Estimate
    """Seconds after which 1/e is remembered."""


@dataclass(frozen=True)
class DecayFit:
    """autocorrelation(lag) = sum of weight * exp(-lag / time); what is left is white."""

    components: tuple[Component, ...]
    """The shorter time first."""
    white: float
    chi_squared: float
    aic: float
    """chi^2 + 2 parameters: differences of this choose between fits to the same values."""


@dataclass(frozen=True)
class DecayChoice:
    """One time against two, on the same autocorrelations with the same covariance."""

    one: DecayFit | None
    two: DecayFit | None
    chosen: int | None
    """Number of times of the fit with the smaller AIC; None where no fit could be made."""
    unknown: str | None


@dataclass(frozen=True)
class Curve:
    """Autocorrelations by lag, as sums to resample, with the number of pairs of each."""

    lags_s: tuple[float, ...]
    pairs: tuple[int, ...]
    sums: Sums = field(repr=False)


def curve_lags(interval_s: float, until_s: float = 1800.0) -> tuple[float, ...]:
    """Lags in seconds: every interval up to twelve, then about 15% apart.

    Always with 30 and 60 intervals and `until_s`.
    """
    steps, last = list(range(1, 13)), int(until_s / interval_s)
    while steps[-1] < last:
        steps.append(max(steps[-1] + 1, round(steps[-1] * 1.15)))
    every = sorted({step for step in (*steps, 30, 60, last) if step <= last})
    return tuple(step * interval_s for step in every)


def autocorrelation_curve(
    blocks: Blocks, series: IntervalSeries, chosen: BoolArray, lags_s: Sequence[float], interval_s: float, prefix: str
) -> Curve:
    """Pearson correlation of acceptance over pairs of `chosen` intervals that lie a lag apart.

    Within half an interval. Intervals of different logs make no pair; a gap in the log leaves its
    pairs out. Names are `<prefix><lag in s>`. nan with fewer than three pairs, or where acceptance
    does not vary.
    """
    members = np.flatnonzero(chosen)
    times, cells = series.end[members], blocks.cell_of_interval()[members]
    x = series.acceptance[members] - (series.acceptance[members].mean() if len(members) else 0.0)
    edges = [*np.flatnonzero(np.diff(series.series[members], prepend=-1)).tolist(), len(members)]
    sums = np.zeros((blocks.cells, 6 * len(lags_s)))
    for number, lag in enumerate(lags_s):
        for first, end in pairwise(edges):
            earlier, later = nearest_at_lag(times[first:end], lag, interval_s)
            a, b, cell = x[first:end][earlier], x[first:end][later], cells[first:end][earlier]
            for column, values in enumerate((None, a, b, a * a, b * b, a * b)):
                sums[:, 6 * number + column] += np.bincount(cell, values, blocks.cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = correlations(sums.sum(axis=0)[None])[0]
    pairs = sums[:, ::6].sum(axis=0).astype(np.int64)
    values[pairs < FEWEST_PAIRS] = np.nan
    names = tuple(f"{prefix}{lag:g}" for lag in lags_s)
    found = Sums(names, tuple(values.tolist()), (FISHER,) * len(names), sums, correlations, sums[:, ::6])
    return Curve(tuple(lags_s), tuple(pairs.tolist()), found)


def fit_decay(
    lags_s: Sequence[float],
    values: Sequence[float | None],
    pairs: Sequence[int],
    interval_s: float,
    n: int,
    confidence: float,
) -> DecayChoice:
    """Fit autocorrelations of n intervals by one and by two decays with a white rest.

    Generalised least squares: the covariance of the autocorrelations is Bartlett's for a Gaussian
    series (Brockwell and Davis 1991, theorem 7.2.1) with the two decays of a first fit, scaled by
    the pairs of each lag; both fits use the same, and the smaller AIC is chosen. The fitted curve
    is that of :func:`fitted_autocorrelation`.
    """
    lag, weight = (np.asarray(column, dtype=np.float64) for column in (lags_s, pairs))
    r = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    known = np.isfinite(r) & (weight >= FEWEST_PAIRS)
    if known.sum() < FEWEST_LAGS:
        found = int(known.sum())
        reason = f"too short: {found} lag{'' if found == 1 else 's'} with an autocorrelation, {FEWEST_LAGS} are needed"
        return DecayChoice(None, None, None, reason)
    lag, r, weight = lag[known] / interval_s, r[known], weight[known]
    covariance = np.diag(1 / weight)
    for _ in range(FIT_ROUNDS):
        covariance = _bartlett(_fit(lag, r, covariance, 2, n).x, lag, weight)
    fits = [_described(_fit(lag, r, covariance, components, n), interval_s, n, confidence) for components in (1, 2)]
    chosen = 1 if fits[0].aic <= fits[1].aic else 2
    return DecayChoice(fits[0], fits[1], chosen, None)


def fitted_autocorrelation(fit: DecayFit, lags_s: Sequence[float], interval_s: float, n: int) -> list[float]:
    """Expected sample autocorrelations of `n` intervals at the lags (all above 0).

    The sum of weight * exp(-lag / time), r, becomes (r - d) / (1 - d): the mean is estimated too,
    and takes with it the part d of the variance that is its own, (1 + 2 sum over lags of r) / n.
    """
    weights = np.array([one.weight.value for one in fit.components], dtype=np.float64)
    times = np.array([one.time_s.value for one in fit.components], dtype=np.float64)
    lags = np.asarray(lags_s, dtype=np.float64)
    return [float(value) for value in _expected(weights, lags[:, None] / times, interval_s / times, n)]


def _expected(weights: FloatArray, lags: FloatArray, interval: FloatArray, n: int) -> FloatArray:
    """At `lags` (m, c), with the interval (c,), both in units of the time of each component."""
    decayed = np.exp(-lags) @ weights
    # The variance of the mean over that of a mean of independent intervals.
    inflation = 1 + 2 * float(np.sum(weights / np.expm1(interval)))
    lost = min(inflation / n, MOST_LOST)
    return np.asarray((decayed - lost) / (1 - lost), dtype=np.float64)


def _fit(lag: FloatArray, r: FloatArray, covariance: FloatArray, components: int, n: int) -> optimize.OptimizeResult:
    """By least squares; `x` holds the weights, then the logarithms of the times in intervals."""
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))

    def residuals(parameters: FloatArray) -> FloatArray:
        weights, times = np.split(parameters, 2)
        return np.asarray(whiten @ (r - _expected(weights, lag[:, None] / np.exp(times), np.exp(-times), n)), dtype=np.float64)

    bounds = (
        [0.0] * components + [np.log(0.3)] * components,
        [1.0] * components + [np.log(REACH * lag[-1])] * components,
    )
    starts = [[1.0], [5.0], [40.0]] if components == 1 else [[1.0, 10.0], [1.5, 40.0], [6.0, 80.0]]
    found = []
    for times in starts:
        first = np.clip([0.8 / components] * components + list(np.log(times)), *bounds)
        found.append(optimize.least_squares(residuals, first, bounds=bounds))
    return min(found, key=lambda one: float(one.cost))


def _bartlett(parameters: FloatArray, lag: FloatArray, pairs: FloatArray) -> FloatArray:
    weights, times = np.split(parameters, 2)
    scale = min(1.0, 0.999 / max(float(weights.sum()), 1e-9))

    def rho(at: FloatArray) -> FloatArray:
        away = np.abs(at)
        value = scale * np.exp(-away[..., None] / np.exp(times)) @ weights
        # Lags are whole intervals: below half of one it is the value itself, its white part
        # included.
        return np.where(away < 0.5, 1.0, value)

    reach = int(lag[-1] + 6 * np.exp(times.max())) + 1
    u = np.arange(1, min(reach, 20_000))[:, None].astype(np.float64)
    terms = rho(u + lag) + rho(u - lag) - 2 * rho(lag) * rho(u)
    return np.asarray(terms.T @ terms / np.sqrt(np.outer(pairs, pairs)), dtype=np.float64)


def _described(fitted: optimize.OptimizeResult, interval_s: float, n: int, confidence: float) -> DecayFit:
    # Residuals are whitened: the inverse of J' J is the covariance of the parameters.
    errors = np.sqrt(np.maximum(np.diag(np.linalg.pinv(fitted.jac.T @ fitted.jac)), 0.0))
    half = float(stats.norm.ppf((1 + confidence) / 2)) * errors
    count = len(fitted.x) // 2
    method = f"{confidence:.0%} interval from the curvature of the fit"
    components = []
    for index in np.argsort(fitted.x[count:]):
        weight, time_s = float(fitted.x[index]), float(np.exp(fitted.x[count + index]) * interval_s)
        low, high = max(weight - float(half[index]), 0.0), min(weight + float(half[index]), 1.0)
        time = Estimate(time_s, None, None, n, NO_COMPONENT)
        if weight > half[index]:
            factor = float(np.exp(np.minimum(half[count + index], MOST_LOG)))
            time = Estimate(time_s, time_s / factor, time_s * factor, n, None, float(errors[count + index]), method=method)
        components.append(Component(Estimate(weight, low, high, n, None, float(errors[index]), method=method), time))
    white = max(0.0, 1 - float(fitted.x[:count].sum()))
    chi_squared = 2 * float(fitted.cost)
    return DecayFit(tuple(components), white, chi_squared, chi_squared + 2 * len(fitted.x))
