"""How much traffic must be watched to know acceptance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.intervals import accepted_variance


@dataclass(frozen=True)
class Planning:
    """Traffic like this needed for an interval of +- `half_width`, and what a draft of it is worth.

    The ends `low` and `high` come from the degrees of freedom of the standard error that the plan rests on.
    """

    half_width: float
    drafts: float
    drafts_low: float
    drafts_high: float
    minutes: float
    minutes_low: float
    minutes_high: float
    effective_drafts: float
    """Independent drafts that would have given the standard error found."""


def planning(
    standard_error: float,
    freedom: float,
    drafts: float,
    seconds: float,
    shares: ArrayLike,
    *,
    half_width: float = 0.01,
    confidence: float = 0.95,
) -> Planning | None:
    """From the standard error of accepted over drafted over `drafts` drafts in `seconds`, and the shares through 1..K.

    The variance of a mean falls as the time watched grows, so that (z standard_error / half_width)^2 times as much is
    needed; z is the normal quantile. None where the standard error is 0.
    """
    if standard_error <= 0:
        return None
    needed = (float(stats.norm.ppf((1 + confidence) / 2)) * standard_error / half_width) ** 2
    ends = freedom / stats.chi2.ppf([(1 + confidence) / 2, (1 - confidence) / 2], freedom)
    low, high = needed * float(ends[0]), needed * float(ends[1])
    k = len(np.asarray(shares))
    effective = accepted_variance(shares) / k**2 / standard_error**2
    minutes = seconds / 60
    return Planning(
        half_width=half_width,
        drafts=needed * drafts,
        drafts_low=low * drafts,
        drafts_high=high * drafts,
        minutes=needed * minutes,
        minutes_low=low * minutes,
        minutes_high=high * minutes,
        effective_drafts=effective,
    )
