"""Ratios of sums over requests that come in clusters, with their confidence intervals.

Requests of one prompt, or of one session, are alike: they make a cluster. A boot of the server is
the unit of replication. Where every boot sends the same prompts, prompts and boots are crossed;
sessions are each of one boot, and lie within it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import BoolArray, FloatArray, IntArray
from draftmeter.stats.estimate import Estimate, t_estimate

FEWEST_CLUSTERS = 2
# With fewer boots their variance is hardly known, and intervals with it fall short: at 95% they
# cover down to 88% with two crossed boots and 92% with three, and 94 to 97% with four (simulated,
# for every part that boots have in the variance).
FEWEST_CROSSED_BOOTS = 4


class RatiosError(ValueError):
    """Input without a meaningful confidence interval: what was found, what would be right."""


@dataclass(frozen=True)
class Clusters:
    """The cluster and the boot of each of n rows, as numbers from 0, shape (n,).

    Made by :func:`clusters_of`.
    """

    cluster: IntArray
    boot: IntArray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.cluster)

    @property
    def number(self) -> int:
        """Number of clusters."""
        return len(np.unique(self.cluster))

    @property
    def boots(self) -> int:
        """Number of boots."""
        return len(np.unique(self.boot))

    @property
    def crossed(self) -> bool:
        """Whether some cluster has rows in several boots."""
        return len(np.unique(self.cell)) > self.number

    @property
    def cell(self) -> IntArray:
        """A number for each row's cluster and boot together, shape (n,)."""
        return np.asarray(self.cluster * (self.boot.max(initial=0) + 1) + self.boot, dtype=np.int64)

    @property
    def lacking(self) -> str | None:
        """Why no confidence interval can be made of these rows; None where one can."""
        if self.number < FEWEST_CLUSTERS:
            return f"no interval: {self.number} cluster{'' if self.number == 1 else 's'}, {FEWEST_CLUSTERS} are needed"
        if self.crossed and self.boots < FEWEST_CROSSED_BOOTS:
            return (
                f"no interval: {self.boots} boots sent the same prompts, and at least {FEWEST_CROSSED_BOOTS} are needed to know "
                "how much boots differ"
            )
        return None

    def chosen(self, rows: BoolArray) -> "Clusters":
        """Those of the chosen rows, shape (n,)."""
        return clusters_of(self.cluster[rows], self.boot[rows])


@dataclass(frozen=True)
class Scatter:
    """How the sums of m columns vary by chance."""

    covariance: FloatArray
    """Shape (m, m)."""
    freedom: FloatArray
    """Degrees of freedom of each variance, shape (m,)."""


@dataclass(frozen=True)
class Share:
    """A share, and how many independent observations would say as much about it."""

    estimate: Estimate
    effective: float


@dataclass(frozen=True)
class GroupOfRequests:
    """Requests whose property lies between two bounds (included), and their pooled acceptance."""

    lowest: float
    highest: float
    requests: int
    acceptance: Estimate


def clusters_of(cluster: ArrayLike, boot: ArrayLike | None = None) -> Clusters:
    """From labels of any kind, shape (n,); without `boot` all rows are of one boot."""
    clusters = np.asarray(cluster)
    boots = np.zeros(len(clusters), dtype=np.int64) if boot is None else np.asarray(boot)
    if clusters.ndim != 1 or clusters.shape != boots.shape:
        raise RatiosError(f"found clusters {clusters.shape}, boots {boots.shape}; needs one label of both for each row")
    return Clusters(*(np.unique(labels, return_inverse=True)[1].astype(np.int64) for labels in (clusters, boots)))


def scatter(residuals: FloatArray, clusters: Clusters) -> Scatter:
    """Of the sums over all rows of `residuals`, shape (n, m), whose expected sums are 0.

    There are at least two clusters.

    One boot: c / (c - 1) sum_c E_c E_c' over the sums E_c of c clusters, with c - 1 degrees of
    freedom (Cochran, Sampling Techniques, 3rd ed., 1977, chapter 6). Clusters within boots: the
    same over the sums of b boots, with b - 1. Clusters crossed with boots: a random effect of each,
    V = V_clusters + V_boots - V_rest, the mean squares of a two-way table (Searle, Casella and
    McCulloch, Variance Components, 1992, chapter 4; as the two-way clusters of Cameron, Gelbach and
    Miller 2011, doi:10.1198/jbes.2010.07136), where boots never take anything away:
    V >= V_clusters. Degrees of freedom by Satterthwaite 1946 (doi:10.2307/3002019), no fewer than
    the smaller factor has and no more than the clusters have.
    """
    if clusters.boots == 1:
        return _between(residuals, clusters.cluster)
    if not clusters.crossed:
        return _between(residuals, clusters.boot)
    by_cluster, by_boot = _between(residuals, clusters.cluster), _between(residuals, clusters.boot)
    rest, freedom_of_rest = _rest(residuals, clusters)
    own, boots = np.diag(by_cluster.covariance), np.diag(by_boot.covariance)
    added = np.maximum(boots - rest, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(np.where(boots > 0, added / boots, 0.0))
        squares = own**2 / by_cluster.freedom + boots**2 / by_boot.freedom + rest**2 / freedom_of_rest
        freedom = np.where(added > 0, (own + added) ** 2 / squares, by_cluster.freedom)
    least = np.minimum(by_cluster.freedom, by_boot.freedom)
    covariance = by_cluster.covariance + by_boot.covariance * np.outer(scale, scale)
    return Scatter(covariance, np.clip(freedom, least, by_cluster.freedom))


def ratio_of_sums(
    numerators: ArrayLike, denominators: ArrayLike, confidence: float, clusters: Clusters | None = None
) -> Estimate:
    """The ratio sum(y) / sum(x) with a linearised standard error and a t interval.

    The error is that of sum(y - r x) over `clusters` of rows (:func:`scatter`), over sum(x): Taylor
    linearisation of a ratio estimator (Cochran, Sampling Techniques, 3rd ed., 1977, chapter 6; no
    finite population correction). Both arrays have shape (n,); without `clusters` each row is one.
    Rows without a denominator count.
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

    `numerators` has shape (n, m), `denominators` (n,); `function` maps the m ratios to a number,
    `gradient` to its m derivatives. For one ratio and the identity this is :func:`ratio_of_sums`.
    """
    y = np.asarray(numerators, dtype=np.float64)
    x = np.asarray(denominators, dtype=np.float64)
    alike = clusters_of(np.arange(len(x))) if clusters is None else clusters
    if y.ndim != 2 or x.shape != y.shape[:1] or len(alike) != len(x):
        raise RatiosError(
            f"found numerators {y.shape}, denominators {x.shape}, {len(alike)} rows in clusters; needs (n, m), (n,) and n"
        )
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(x))):
        raise RatiosError("found an unknown total; leave it out and say so, or give no estimate")
    if not 0 < confidence < 1:
        raise RatiosError(f"confidence: found {confidence}; needs a number between 0 and 1")
    n, total = alike.number, float(x.sum())
    if total == 0:
        return Estimate(None, None, None, n, "the denominator is zero")
    ratios = y.sum(axis=0) / total
    value = function(ratios)
    if alike.lacking is not None:
        return Estimate(value, None, None, n, alike.lacking)
    found = scatter((y - x[:, None] * ratios) @ gradient(ratios)[:, None], alike)
    error = float(np.sqrt(found.covariance[0, 0])) / total
    return t_estimate(value, error, float(found.freedom[0]), confidence, n, linearised(confidence))


def linearised(confidence: float) -> str:
    """How the confidence intervals of this module are made, in words."""
    return f"{confidence:.0%} t interval, linearised"


def share_over_clusters(hits: ArrayLike, counts: ArrayLike, confidence: float) -> Share:
    """The share sum(hits) / sum(counts) of n clusters, with Wilson's interval.

    Both have shape (n,), every count above 0. Wilson 1927 (doi:10.1080/01621459.1927.10502953), at
    the effective number of observations p (1 - p) / v, v the linearised variance over clusters
    (Korn and Graubard 1998, Survey Methodology 24; Dean and Pagano 2015, doi:10.1093/jssam/smv024),
    and no more than there are. Clusters of one observation give the plain interval. Where all
    observations are alike nothing shows how clusters differ, and each counts as one observation.
    """
    y, x = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not len(x) or not np.all((x > 0) & (y >= 0) & (y <= x)):
        raise RatiosError(f"found hits {y.tolist()} of {x.tolist()}; needs 0 <= hits <= counts, and counts above 0")
    n = float(x.sum())
    share = float(y.sum() / n)
    spread, variance = share * (1 - share), float(np.sum((y - share * x) ** 2)) / n**2
    effective = float(len(x)) if spread == 0 else min(n, spread / variance) if variance else n
    low, high = proportion_confint(share * effective, effective, 1 - confidence, method="wilson")
    return Share(Estimate(share, low, high, len(x), method=f"{confidence:.0%} interval of Wilson"), effective)


def mean_of_requests(accepted: ArrayLike, drafted: ArrayLike, clusters: Clusters, confidence: float) -> Estimate:
    """Mean of accepted / drafted over requests, each of equal weight, shape (n,).

    A request without a draft is left out.
    """
    a, d = (np.asarray(column, dtype=np.float64) for column in (accepted, drafted))
    made = d > 0
    return ratio_of_sums(a[made] / d[made], np.ones(int(made.sum())), confidence, clusters.chosen(made))


def by_groups(
    accepted: ArrayLike, drafted: ArrayLike, clusters: Clusters, property_: ArrayLike, confidence: float, groups: int = 4
) -> tuple[GroupOfRequests, ...]:
    """Acceptance of requests in groups of about equal numbers by a property, shape (n,).

    A property is the length of the prompt, or the cached share of it. Equal values of it stay
    together, so that there may be fewer groups. A request whose property is nan is left out.
    """
    values = np.asarray(property_, dtype=np.float64)
    a, d = np.asarray(accepted, dtype=np.float64), np.asarray(drafted, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return ()
    cuts = np.unique(np.quantile(values[known], np.arange(1, groups) / groups, method="inverted_cdf"))
    group = np.where(known, np.searchsorted(cuts, values, side="left"), -1)
    result = []
    for number in np.unique(group[known]):
        members = group == number
        bounds = float(values[members].min()), float(values[members].max())
        acceptance = ratio_of_sums(a[members], d[members], confidence, clusters.chosen(members))
        result.append(GroupOfRequests(*bounds, int(members.sum()), acceptance))
    return tuple(result)


def summed_by(labels: ArrayLike, *columns: ArrayLike) -> Sequence[FloatArray]:
    """Sums of the columns (n,) over each cluster, in the order of the sorted labels."""
    names, position = np.unique(np.asarray(labels), return_inverse=True)
    summed = (np.bincount(position, np.asarray(column, dtype=np.float64), len(names)) for column in columns)
    return [np.asarray(column, dtype=np.float64) for column in summed]


def _between(residuals: FloatArray, group: IntArray) -> Scatter:
    sums = _sums(residuals, group)
    n = len(sums)
    return Scatter(n / (n - 1) * sums.T @ sums, np.full(residuals.shape[1], n - 1.0))


def _rest(residuals: FloatArray, clusters: Clusters) -> tuple[FloatArray, float]:
    """The variance, shape (m,), that is neither of clusters nor of boots; its degrees of freedom.

    0 where too few clusters lie in several boots to tell it: then nothing is taken away
    from the variance of the boots.
    """
    _, first, cell = np.unique(clusters.cell, return_index=True, return_inverse=True)
    sums = _sums(residuals, cell)
    freedom = len(first) - clusters.number - clusters.boots + 1
    if freedom <= 0:
        return np.zeros(residuals.shape[1]), 1.0
    left = sums - _means(sums, clusters.cluster[first]) - _means(sums, clusters.boot[first])
    return len(first) / freedom * np.sum(left**2, axis=0), float(freedom)


def _sums(values: FloatArray, group: IntArray) -> FloatArray:
    return np.column_stack([np.bincount(group, column) for column in values.T])


def _means(values: FloatArray, group: IntArray) -> FloatArray:
    """The mean of each row's group, shape (n, m)."""
    means = _sums(values, group) / np.bincount(group)[:, None]
    return np.asarray(means[group], dtype=np.float64)
