"""Ratios of sums over clusters, with their intervals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.clusters import Clusters, clusters_of, scatter

FloatArray = NDArray[np.float64]


class UncertaintyError(ValueError):
    """Input without a meaningful interval: what was found, what would be right."""


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval. `unknown` says why the value or its interval is None; else it is None."""

    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    clusters: int
    unknown: str | None


def ratio_of_sums(
    numerators: ArrayLike, denominators: ArrayLike, confidence: float, clusters: Clusters | None = None
) -> Estimate:
    """The ratio sum(y) / sum(x) with a linearised standard error and a t interval.

    The error is that of sum(y - r x) over `clusters` of rows (:func:`draftmeter.stats.clusters.scatter`), over sum(x): Taylor
    linearisation of a ratio estimator (Cochran, Sampling Techniques, 3rd ed., 1977, chapter 6; no finite population
    correction). Both arrays have shape (n,); without `clusters` each row is one. Rows without a denominator count.
    """
    y = np.asarray(numerators, dtype=np.float64)
    return smooth_function_of_ratios(y[:, None], denominators, lambda r: float(r[0]), lambda _: np.ones(1), confidence, clusters)


def smooth_function_of_ratios(
    numerators: ArrayLike,
    denominators: ArrayLike,
    function: Callable[[FloatArray], float],
    gradient: Callable[[FloatArray], FloatArray],
    confidence: float,
    clusters: Clusters | None = None,
) -> Estimate:
    """A smooth function of m ratios with a common denominator, by linearisation (delta method).

    `numerators` has shape (n, m), `denominators` (n,); `function` maps the m ratios to a number, `gradient` to its m
    derivatives. For one ratio and the identity this is :func:`ratio_of_sums`.
    """
    y = np.asarray(numerators, dtype=np.float64)
    x = np.asarray(denominators, dtype=np.float64)
    alike = clusters_of(np.arange(len(x))) if clusters is None else clusters
    if y.ndim != 2 or x.shape != y.shape[:1] or len(alike) != len(x):
        raise UncertaintyError(
            f"found numerators {y.shape}, denominators {x.shape}, {len(alike)} rows in clusters; needs (n, m), (n,) and n"
        )
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(x))):
        raise UncertaintyError("found an unknown total; leave it out and say so, or give no estimate")
    if not 0 < confidence < 1:
        raise UncertaintyError(f"confidence: found {confidence}; needs a number between 0 and 1")
    n, total = alike.number, float(x.sum())
    if total == 0:
        return Estimate(None, None, None, None, n, "the denominator is zero")
    ratios = y.sum(axis=0) / total
    value = function(ratios)
    if alike.lacking is not None:
        return Estimate(value, None, None, None, n, alike.lacking)
    found = scatter((y - x[:, None] * ratios) @ gradient(ratios)[:, None], alike)
    error = float(np.sqrt(found.covariance[0, 0])) / total
    half_width = float(stats.t.ppf((1 + confidence) / 2, found.freedom[0])) * error
    return Estimate(value, error, value - half_width, value + half_width, n, None)
