"""The memory of acceptance: its correlation with itself at many lags, and how it decays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import FloatArray
from draftmeter.stats.blocks import Blocks
from draftmeter.stats.intervals import FEWEST_PAIRS, nearest_at_lag
from draftmeter.stats.lines import Lines
from draftmeter.stats.parts import correlations
from draftmeter.stats.resample import FISHER, Part

BoolArray = NDArray[np.bool_]

# Two components have four parameters.
FEWEST_LAGS = 6
# No time is longer than this many of the longest lag: it could not be told from a constant.
REACH = 8.0
FIT_ROUNDS = 2
# An interval of a time that spans e^50 either way says nothing, and must not overflow.
MOST_LOG = 50.0


@dataclass(frozen=True)
class Component:
    """A component of the variance of acceptance that forgets exponentially, with intervals from the curvature of the fit.

    The ends of the time are None where the weight cannot be told from 0: a component that may not be there has no time.
    """

    weight: float
    weight_low: float
    weight_high: float
    time_s: float
    time_low_s: float | None
    time_high_s: float | None


@dataclass(frozen=True)
class DecayFit:
    """autocorrelation(lag) = sum of weight * exp(-lag / time); what is left of the variance is white."""

    components: tuple[Component, ...]
    white: float
    chi_squared: float
    aic: float
    """chi^2 + 2 parameters: differences of this choose between fits to the same autocorrelations."""


@dataclass(frozen=True)
class DecayChoice:
    """One time against two, on the same autocorrelations with the same covariance; `chosen` has the smaller AIC."""

    one: DecayFit | None
    two: DecayFit | None
    chosen: int | None
    """Number of times; None where no fit could be made."""
    unknown: str | None


@dataclass(frozen=True)
class Curve:
    """Autocorrelations by lag (m of them), as a part to resample, with the number of pairs of each."""

    lags_s: tuple[float, ...]
    pairs: tuple[int, ...]
    part: Part = field(repr=False)


def curve_lags(interval_s: float, until_s: float = 1800.0) -> tuple[float, ...]:
    """Lags in seconds: every interval up to twelve, then about 15% apart, always with 30 and 60 intervals and `until_s`."""
    steps, last = list(range(1, 13)), int(until_s / interval_s)
    while steps[-1] < last:
        steps.append(max(steps[-1] + 1, round(steps[-1] * 1.15)))
    every = sorted({step for step in (*steps, 30, 60, last) if step <= last})
    return tuple(step * interval_s for step in every)


def autocorrelation_curve(
    blocks: Blocks, lines: Lines, taking_part: BoolArray, lags_s: Sequence[float], interval_s: float, prefix: str
) -> Curve:
    """Pearson correlation of acceptance over pairs of lines taking part that lie a lag apart within half an interval.

    Lines of different series make no pair; a gap in the log leaves its pairs out. Names are `<prefix><lag in s>`. nan with
    fewer than three pairs, or without variation.
    """
    members = np.flatnonzero(taking_part)
    times, cells = lines.end[members], blocks.cell_of_line()[members]
    x = lines.acceptance[members] - (lines.acceptance[members].mean() if len(members) else 0.0)
    series = lines.series[members]
    edges = [*np.flatnonzero(np.diff(series, prepend=-1)).tolist(), len(members)]
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
    part = Part(names, tuple(values.tolist()), (FISHER,) * len(names), sums, correlations, sums[:, ::6])
    return Curve(tuple(lags_s), tuple(pairs.tolist()), part)


def fit_decay(
    lags_s: Sequence[float],
    values: Sequence[float | None],
    pairs: Sequence[int],
    interval_s: float,
    n: int,
    confidence: float,
) -> DecayChoice:
    """Fit autocorrelations of n intervals by one and by two decays with a white rest, and choose by AIC.

    Generalised least squares: the covariance of the autocorrelations is Bartlett's for a Gaussian series (Brockwell and
    Davis 1991, theorem 7.2.1) with the two decays of a first fit, scaled by the pairs of each lag; both fits use the same.
    The fitted curve is that of the estimates: the mean is estimated too, which lowers each by about the variance of the mean.
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
    two = _Fitted(np.empty(0), np.inf)
    for _ in range(FIT_ROUNDS):
        two = _fit(lag, r, covariance, 2, n)
        covariance = _bartlett(two.parameters, lag, weight)
    two, one = _fit(lag, r, covariance, 2, n), _fit(lag, r, covariance, 1, n)
    fits = [_described(fitted, lag, covariance, interval_s, n, confidence) for fitted in (one, two)]
    chosen = 1 if fits[0].aic <= fits[1].aic else 2
    return DecayChoice(fits[0], fits[1], chosen, None)


@dataclass(frozen=True)
class _Fitted:
    parameters: FloatArray
    """Weights, then logarithms of the times in intervals."""
    chi_squared: float


def _fit(lag: FloatArray, r: FloatArray, covariance: FloatArray, components: int, n: int) -> _Fitted:
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))

    def residuals(parameters: FloatArray) -> FloatArray:
        return np.asarray(whiten @ (r - _curve(parameters, lag, n)), dtype=np.float64)

    bounds = (
        [0.0] * components + [np.log(0.3)] * components,
        [1.0] * components + [np.log(REACH * lag[-1])] * components,
    )
    starts = [[1.0], [5.0], [40.0]] if components == 1 else [[1.0, 10.0], [1.5, 40.0], [6.0, 80.0]]
    found = []
    for times in starts:
        first = np.clip([0.8 / components] * components + list(np.log(times)), *bounds)
        solved = optimize.least_squares(residuals, first, bounds=bounds)
        found.append(_Fitted(solved.x, 2 * float(solved.cost)))
    return min(found, key=lambda one: one.chi_squared)


def _curve(parameters: FloatArray, lag: FloatArray, n: int) -> FloatArray:
    """Expected sample autocorrelation: with the variance d of the mean in units of the variance, (r - d) / (1 - d)."""
    weights, times = np.split(parameters, 2)
    decayed = np.exp(-lag[:, None] / np.exp(times)) @ weights
    lost = min(_inflation(parameters) / n, 0.5)
    return np.asarray((decayed - lost) / (1 - lost), dtype=np.float64)


def _inflation(parameters: FloatArray) -> float:
    """1 + 2 sum over lags of the autocorrelation: the variance of a mean over that of independent intervals."""
    weights, times = np.split(parameters, 2)
    return 1 + 2 * float(np.sum(weights / np.expm1(np.exp(-times))))


def _bartlett(parameters: FloatArray, lag: FloatArray, pairs: FloatArray) -> FloatArray:
    weights, times = np.split(parameters, 2)
    scale = min(1.0, 0.999 / max(float(weights.sum()), 1e-9))

    def rho(at: FloatArray) -> FloatArray:
        away = np.abs(at)
        value = scale * np.exp(-away[..., None] / np.exp(times)) @ weights
        # Lags are whole intervals: below half of one it is the value itself, its white part included.
        return np.where(away < 0.5, 1.0, value)

    reach = int(lag[-1] + 6 * np.exp(times.max())) + 1
    u = np.arange(1, min(reach, 20_000))[:, None].astype(np.float64)
    terms = rho(u + lag) + rho(u - lag) - 2 * rho(lag) * rho(u)
    return np.asarray(terms.T @ terms / np.sqrt(np.outer(pairs, pairs)), dtype=np.float64)


def _described(
    fitted: _Fitted, lag: FloatArray, covariance: FloatArray, interval_s: float, n: int, confidence: float
) -> DecayFit:
    parameters = fitted.parameters
    step = 1e-5
    ahead, behind = (
        np.column_stack([_curve(parameters + way * step * one, lag, n) for one in np.eye(len(parameters))]) for way in (1, -1)
    )
    slopes = (ahead - behind) / (2 * step)
    spread = np.linalg.pinv(slopes.T @ np.linalg.solve(covariance, slopes))
    half = float(stats.norm.ppf((1 + confidence) / 2)) * np.sqrt(np.maximum(np.diag(spread), 0.0))
    count = len(parameters) // 2
    components = []
    for index in np.argsort(parameters[count:]):
        weight, time_s = float(parameters[index]), float(np.exp(parameters[count + index]) * interval_s)
        times: tuple[float | None, float | None] = (None, None)
        if weight > half[index]:
            factor = float(np.exp(np.minimum(half[count + index], MOST_LOG)))
            times = (time_s / factor, time_s * factor)
        weights = (max(weight - half[index], 0.0), min(weight + half[index], 1.0))
        components.append(Component(weight, float(weights[0]), float(weights[1]), time_s, *times))
    white = max(0.0, 1 - float(parameters[:count].sum()))
    return DecayFit(tuple(components), white, fitted.chi_squared, fitted.chi_squared + 2 * len(parameters))
