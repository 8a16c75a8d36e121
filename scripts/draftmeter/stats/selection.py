"""What groups selected on the outcome show when there is nothing to select: equal chances in all intervals."""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import FloatArray
from draftmeter.stats.intervals import IntervalsError, accepted_variance


def expected_groups(shares: ArrayLike, drafts: ArrayLike, groups: int = 5) -> tuple[tuple[float, ...], ...]:
    """Chance by group and position, shape (groups, K), if every draft had the same `shares` through 1..K (all above 0).

    In closed form, for any number of intervals (their drafts n_i, shape (n,)): acceptance of an interval is taken as normal
    with variance V / (K^2 n_i), and accepted_k as its regression on it. With a hundred drafts or more an interval this agrees
    to 0.001 with drafts drawn from their multinomial distribution.
    """
    s = np.asarray(shares, dtype=np.float64)
    n, count = np.unique(np.asarray(drafts, dtype=np.float64), return_counts=True)
    if s.ndim != 1 or len(s) == 0 or np.any(s <= 0) or np.any(s > 1) or np.any(np.diff(s) > 0):
        raise IntervalsError(f"found shares {s.tolist()}; needs numbers above 0 that do not rise, one for each position")
    if count.sum() < groups or np.any(n <= 0):
        raise IntervalsError(f"found {count.sum()} intervals; {groups} groups need at least {groups}, each with a draft")
    k, v = len(s), accepted_variance(s)
    if v <= 0:
        return tuple(tuple((s / np.concatenate([[1.0], s[:-1]])).tolist()) for _ in range(groups))
    sd = np.sqrt(v / n) / k
    # Covariance of "accepted through k" with the accepted tokens of a draft, over the variance of these.
    after = np.cumsum(s[::-1])[::-1] - s
    regression = (np.arange(1, k + 1) * s + after - s * s.sum()) / v

    def below(cut: float) -> float:
        return float(count @ stats.norm.cdf(cut / sd)) / float(count.sum())

    cuts = [-np.inf]
    for group in range(1, groups):
        share = group / groups
        cuts.append(float(optimize.brentq(lambda cut, share=share: below(cut) - share, -10 * sd.max(), 10 * sd.max())))
    cuts.append(np.inf)
    result = []
    for low, high in pairwise(cuts):
        inside = stats.norm.cdf(high / sd) - stats.norm.cdf(low / sd)
        excess = sd * (stats.norm.pdf(low / sd) - stats.norm.pdf(high / sd))
        pooled = float(count @ (n * inside))
        through: FloatArray = s * pooled + regression * k * float(count @ (n * excess))
        result.append(tuple((through / np.concatenate([[pooled], through[:-1]])).tolist()))
    return tuple(result)
