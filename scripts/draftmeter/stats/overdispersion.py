"""How much of the variation between intervals is more than the luck of drafts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from draftmeter.stats.resample import BlockEstimate


@dataclass(frozen=True)
class TrueVariation:
    """Between-interval variation of a true rate: what is left of the variance without sampling.

    `unknown` says why a value or its interval is None. A variance below that of sampling gives 0: none is seen.
    """

    sd: float | None
    low: float | None
    high: float | None
    intraclass: float | None
    """True variance over rate (1 - rate), the correlation of two drafts of one interval; None for acceptance as a whole."""
    unknown: str | None


@dataclass(frozen=True)
class Overdispersion:
    """True variation of acceptance, and per position of the chance (beta-binomial by moments)."""

    acceptance: TrueVariation
    positions: tuple[TrueVariation, ...]


def overdispersion(
    estimates: Mapping[str, BlockEstimate], spread: str, dispersion: str, chances: tuple[float | None, ...]
) -> Overdispersion:
    """From the parts `spread` (prefix of sd, true_variance) and `dispersion` (prefix of variance_k, binomial_k).

    Variance less sampling variance, the method of moments; in a beta-binomial model of accepted_k given accepted_(k-1) that
    is the variance of its beta distribution. The interval is that of the variance, less the sampling variance, which is
    known far better. `chances` are the pooled ones, for the intraclass correlations.
    """
    sd, moment = estimates[f"{spread}sd"], estimates[f"{spread}true_variance"]
    sampling = None if sd.value is None or moment.value is None else max(sd.value**2 - moment.value, 0.0)
    square = None if sd.low is None or sd.high is None else (sd.low**2, sd.high**2)
    total = None if sd.value is None else sd.value**2
    acceptance = _variation(total, square, sampling, None, sd.unknown or moment.unknown)
    positions = []
    for position, chance in enumerate(chances, start=1):
        variance, binomial = (estimates[f"{dispersion}{kind}_{position}"] for kind in ("variance", "binomial"))
        ends = None if variance.low is None or variance.high is None else (variance.low, variance.high)
        positions.append(_variation(variance.value, ends, binomial.value, chance, variance.unknown))
    return Overdispersion(acceptance, tuple(positions))


def _variation(
    total: float | None, ends: tuple[float, float] | None, sampling: float | None, rate: float | None, unknown: str | None
) -> TrueVariation:
    if total is None or sampling is None:
        return TrueVariation(None, None, None, None, unknown or "a line gives no acceptance by position")
    true = max(total - sampling, 0.0)
    low, high = (None, None) if ends is None else (float(np.sqrt(max(end - sampling, 0.0))) for end in ends)
    intraclass = None if rate is None or not 0 < rate < 1 else true / (rate * (1 - rate))
    return TrueVariation(float(np.sqrt(true)), low, high, intraclass, unknown)
