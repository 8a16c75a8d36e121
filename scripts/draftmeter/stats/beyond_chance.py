"""How much of the variation between intervals is beyond chance, and what it asks for.

The luck of drafts alone makes intervals differ, and groups that are selected on the outcome; the
rest says how much traffic must be watched to know acceptance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import FloatArray, accepted_variance
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.intervals import IntervalsError


@dataclass(frozen=True)
class Overdispersion:
    """Standard deviation between intervals of what is true: the variance left without sampling.

    Of acceptance, and per position of the chance (beta-binomial by moments). A variance below that
    of sampling gives 0: none is seen.
    """

    acceptance: Estimate
    positions: tuple[Estimate, ...]
    intraclass: tuple[float | None, ...]
    """Per position the true variance over chance (1 - chance).

    That is the correlation of two drafts of one interval.
    """


@dataclass(frozen=True)
class Planning:
    """Traffic like this needed for a confidence interval of +- `half_width`.

    The ends of the estimates come from the degrees of freedom of the standard error that the plan
    rests on.
    """

    half_width: float
    drafts: Estimate
    minutes: Estimate
    effective_drafts: float
    """Independent drafts that would have given the standard error found."""


def overdispersion(
    estimates: Mapping[str, Estimate], spread: str, dispersion: str, chances: tuple[float | None, ...]
) -> Overdispersion:
    """From the estimates of the spread, and of the chances by position.

    `<spread>sd` and `<spread>true_variance`; `<dispersion>variance_k` and `<dispersion>binomial_k`.
    Variance less sampling variance, the method of moments; in a beta-binomial model of accepted_k
    given accepted_(k-1) that is the variance of its beta distribution. The confidence interval is
    that of the variance, less the sampling variance, which is known far better. `chances` are the
    pooled ones, for the intraclass correlations.
    """
    sd, moment = estimates[f"{spread}sd"], estimates[f"{spread}true_variance"]
    sampling = None if sd.value is None or moment.value is None else max(sd.value**2 - moment.value, 0.0)
    square = None if sd.low is None or sd.high is None else (sd.low**2, sd.high**2)
    total = None if sd.value is None else sd.value**2
    acceptance, _ = _beyond_sampling(sd, total, square, sampling, sd.unknown or moment.unknown)
    positions, intraclass = [], []
    for position, chance in enumerate(chances, start=1):
        variance, binomial = (estimates[f"{dispersion}{kind}_{position}"] for kind in ("variance", "binomial"))
        ends = None if variance.low is None or variance.high is None else (variance.low, variance.high)
        found, true = _beyond_sampling(variance, variance.value, ends, binomial.value, variance.unknown)
        positions.append(found)
        intraclass.append(None if true is None or chance is None or not 0 < chance < 1 else true / (chance * (1 - chance)))
    return Overdispersion(acceptance, tuple(positions), tuple(intraclass))


def planning(
    standard_error: float,
    freedom: float,
    drafts: float,
    seconds: float,
    shares: ArrayLike,
    *,
    n: int,
    half_width: float = 0.01,
    confidence: float = 0.95,
) -> Planning | None:
    """From the standard error of accepted over drafted over `drafts` drafts in `seconds`.

    `shares` are those through 1..K, `n` the intervals that they come from. The variance of a mean
    falls as the time watched grows, so that (z standard_error / half_width)^2 times as much is
    needed; z is the normal quantile. None where the standard error is 0.
    """
    if standard_error <= 0:
        return None
    needed = (float(stats.norm.ppf((1 + confidence) / 2)) * standard_error / half_width) ** 2
    ends = freedom / stats.chi2.ppf([(1 + confidence) / 2, (1 - confidence) / 2], freedom)
    low, high = needed * float(ends[0]), needed * float(ends[1])
    method = f"{confidence:.0%} interval from the degrees of freedom of the standard error"

    def times(much: float) -> Estimate:
        return Estimate(needed * much, low * much, high * much, n, method=method)

    k = len(np.asarray(shares))
    effective = accepted_variance(shares) / k**2 / standard_error**2
    return Planning(half_width, times(drafts), times(seconds / 60), effective)


def expected_groups(shares: ArrayLike, drafts: ArrayLike, groups: int = 5) -> tuple[tuple[float, ...], ...]:
    """What groups selected on the outcome show when there is nothing to select.

    Chance by group and position, shape (groups, K), if every draft had the same `shares` through
    1..K (all above 0). In closed form, for any number of intervals (their drafts n_i, shape (n,)):
    acceptance of an interval is taken as normal with variance V / (K^2 n_i), and accepted_k as its
    regression on it. With a hundred drafts or more an interval this agrees to 0.001 with drafts
    drawn from their multinomial distribution.
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
    # Covariance of "accepted through k" with the accepted tokens of a draft, over the variance of
    # these.
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


def _beyond_sampling(
    of: Estimate, total: float | None, ends: tuple[float, float] | None, sampling: float | None, unknown: str | None
) -> tuple[Estimate, float | None]:
    """The true standard deviation, and the true variance."""
    if total is None or sampling is None:
        return Estimate(None, None, None, of.n, unknown or "a line gives no acceptance by position"), None
    true = max(total - sampling, 0.0)
    low, high = (None, None) if ends is None else (float(np.sqrt(max(end - sampling, 0.0))) for end in ends)
    return Estimate(float(np.sqrt(true)), low, high, of.n, unknown, method=of.method), true
