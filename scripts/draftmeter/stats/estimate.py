"""The form in which a statistic is given: its value, and its confidence interval or why not."""

from dataclasses import dataclass, replace

from scipy import stats  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval; where one of the two is None, `unknown` says why."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """What it is made of: clusters of requests, or intervals."""
    unknown: str | None = None
    standard_error: float | None = None
    """On the scale on which the confidence interval is symmetric."""
    freedom: float | None = None
    """Degrees of freedom of the standard error."""
    method: str = ""
    """How the confidence interval was made, in words; empty where there is none."""

    def without_interval(self, reason: str) -> "Estimate":
        """The same value with no confidence interval, for this reason."""
        return replace(self, low=None, high=None, unknown=reason, standard_error=None, freedom=None, method="")


def t_quantile(confidence: float, freedom: float) -> float:
    """The half width of a t interval, in standard errors."""
    return float(stats.t.ppf((1 + confidence) / 2, freedom))


def t_estimate(value: float, error: float, freedom: float, confidence: float, n: int, method: str) -> Estimate:
    """`value` +- t * standard error."""
    half = t_quantile(confidence, freedom) * error
    return Estimate(value, value - half, value + half, n, None, error, freedom, method)
