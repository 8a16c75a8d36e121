"""Acceptance of requests: each of equal weight, and in groups by what they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftmeter.stats.clusters import Clusters
from draftmeter.stats.uncertainty import Estimate, ratio_of_sums

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class GroupOfRequests:
    """Requests whose property lies between two bounds (included), and their pooled acceptance."""

    lowest: float
    highest: float
    requests: int
    acceptance: Estimate


def mean_of_requests(accepted: ArrayLike, drafted: ArrayLike, clusters: Clusters, confidence: float) -> Estimate:
    """Mean of accepted / drafted over requests, each of equal weight, shape (n,); one without a draft is left out."""
    a, d = (np.asarray(column, dtype=np.float64) for column in (accepted, drafted))
    made = d > 0
    return ratio_of_sums(a[made] / d[made], np.ones(int(made.sum())), confidence, clusters.chosen(made))


def by_groups(
    accepted: ArrayLike, drafted: ArrayLike, clusters: Clusters, property_: ArrayLike, confidence: float, groups: int = 4
) -> tuple[GroupOfRequests, ...]:
    """Acceptance of requests in groups of about equal numbers by a property (prompt length, cached share), shape (n,).

    Equal values of the property stay together, so that there may be fewer groups. A request whose property is nan is left out.
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
