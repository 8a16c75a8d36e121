"""Making facts: counts, rounding, and what no analysis can use."""

import math

from draftmeter.facts import Fact

# Sums of floats may differ in their last digits between processors; a published file must not.
SIGNIFICANT_DIGITS = 12


class AnalysisError(ValueError):
    """Input that cannot be analysed: which table or key, what was found, what would be right."""


def count_fact(value: float | None, definition: str, method: str, n: int, n_unit: str, unknown: str | None = None) -> Fact:
    """A count: exact, so without an interval."""
    return Fact(
        value=rounded(value),
        low=None,
        high=None,
        method=method,
        n=n,
        n_unit=n_unit,
        unit="count",
        definition=definition,
        unknown=unknown,
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
