"""Intervals of a share over requests that come in clusters."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.uncertainty import UncertaintyError


@dataclass(frozen=True)
class Share:
    """A share with the ends of its interval, and how many independent observations say as much."""

    value: float
    low: float
    high: float
    effective: float


def share_over_clusters(hits: ArrayLike, counts: ArrayLike, confidence: float) -> Share:
    """The share sum(hits) / sum(counts) of n clusters (both of shape (n,), every count above 0), with Wilson's interval.

    Wilson 1927 (doi:10.1080/01621459.1927.10502953), at the effective number of observations p (1 - p) / v, v the linearised
    variance over clusters (Korn and Graubard 1998, Survey Methodology 24; Dean and Pagano 2015, doi:10.1093/jssam/smv024),
    and no more than there are. Clusters of one observation give the plain interval. Where all observations are alike nothing
    shows how clusters differ, and each counts as one observation.
    """
    y, x = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not len(x) or not np.all((x > 0) & (y >= 0) & (y <= x)):
        raise UncertaintyError(f"found hits {y.tolist()} of {x.tolist()}; needs 0 <= hits <= counts, and counts above 0")
    n = float(x.sum())
    share = float(y.sum() / n)
    spread, variance = share * (1 - share), float(np.sum((y - share * x) ** 2)) / n**2
    effective = float(len(x)) if spread == 0 else min(n, spread / variance) if variance else n
    z = float(stats.norm.ppf((1 + confidence) / 2))
    centre = (share + z**2 / (2 * effective)) / (1 + z**2 / effective)
    half = z / (1 + z**2 / effective) * float(np.sqrt(spread / effective + z**2 / (4 * effective**2)))
    return Share(share, max(centre - half, 0.0), min(centre + half, 1.0), effective)
