"""Making facts: rounding, intervals that stay inside their range, and what no analysis can use."""

import math

from draftmeter import units
from draftmeter.facts import Fact
from draftmeter.stats.estimate import Estimate

# Sums of floats may differ in their last digits between processors; a published file must not.
SIGNIFICANT_DIGITS = 12
POINTS = units.POINTS
PERCENT = units.PERCENT


class AnalysisError(ValueError):
    """Input that cannot be analysed: which table or key, what was found, what would be right."""


def fact(  # noqa: PLR0913  the fields of a fact
    value: float | None,
    *,
    unit: str,
    definition: str,
    method: str,
    n: int,
    n_unit: str,
    low: float | None = None,
    high: float | None = None,
    unknown: str | None = None,
) -> Fact:
    """A rounded fact; the interval of a fraction is cut at 0 and 1, which it cannot pass."""
    if value is None and not unknown:
        raise AnalysisError(f"a figure came out without a value and without a reason: {definition}")
    if unit == "fraction":
        low, high = within_unit(low, high)
    return Fact(
        value=rounded(value),
        low=rounded(low),
        high=rounded(high),
        method=method,
        n=n,
        n_unit=n_unit,
        unit=unit,
        definition=definition,
        unknown=unknown,
    )


def count_fact(value: float | None, definition: str, method: str, n: int, n_unit: str, unknown: str | None = None) -> Fact:
    """A count: exact, so without an interval."""
    return fact(value, unit="count", definition=definition, method=method, n=n, n_unit=n_unit, unknown=unknown)


def block_fact(
    found: Estimate,
    source: str,
    unit: str,
    definition: str,
    *,
    factor: float = 1.0,
    less: float = 0.0,
) -> Fact:
    """`factor` times an estimate from resampled blocks, then `less` subtracted; its value stays where it has no interval."""
    value, *ends = (None if end is None else factor * end - less for end in (found.value, found.low, found.high))
    low, high = ends if factor > 0 else reversed(ends)
    return fact(
        value,
        low=low,
        high=high,
        unit=unit,
        definition=definition,
        method="; ".join(filter(None, (source, found.method))),
        n=found.n,
        n_unit="intervals",
        unknown=found.unknown,
    )


def rounded(value: float | None) -> float | None:
    """`value` to 12 significant digits; None stays None, and a value that is not finite is an error."""
    if value is None:
        return None
    if not math.isfinite(value):
        raise AnalysisError(f"a figure came out as {value}; an unknown figure must be null with a reason")
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def within_unit(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """The ends of an interval of a share or chance, cut at 0 and 1, which it cannot pass."""
    return (None if low is None else min(max(low, 0.0), 1.0)), (None if high is None else min(max(high, 0.0), 1.0))
