"""How figures are printed: digits fixed by unit, thousands separated, a null as `unknown` with its reason.

All functions return plain text with a typographic minus; escaping for Markdown or LaTeX happens where it is inserted.
"""

import math

from draftmeter.facts import Fact
from draftmeter.render.facts import RenderError

MINUS = "\N{MINUS SIGN}"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# Printed digits after the point, and the sign of a difference. Tokens are counts when whole and large, rates otherwise.
DIGITS = {
    "fraction": 1,
    "relative": 2,
    "percentage points": 1,
    "tokens": 2,
    "tokens per step": 2,
    "ratio": 1,
    "correlation": 2,
    "s": 1,
}
SIGNED = {"relative", "correlation"}
PERCENT = {"fraction", "relative"}
SILENT = {"count", "ratio", "correlation", "fraction", "relative"}


def decimal(value: float, digits: int, *, signed: bool = False) -> str:
    """A number with fixed digits, thousands separated by commas, and the minus of print; -0.0 prints as 0.0."""
    if not math.isfinite(value):
        raise RenderError(f"found the number {value}; an unknown figure must be null with a reason")
    text = f"{value:+,.{digits}f}" if signed else f"{value:,.{digits}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def count(value: float) -> str:
    """A count, thousands separated by commas."""
    return decimal(value, 0 if float(value).is_integer() else 1)


def percent(value: float, digits: int = 1, *, signed: bool = False) -> str:
    """A fraction as a percentage: 0.66 is 66.0%."""
    return decimal(100 * value, digits, signed=signed) + "%"


def plain(value: float, significant: int = 12) -> str:
    """A number without padding, such as a setting: 2.0 is 2, 0.5 is 0.5."""
    return f"{value:,.{significant}g}".replace("-", MINUS)


def or_unknown(value: float | None, digits: int) -> str:
    """A number of a table with fixed digits, or the word; the reason stands in the row or below the table."""
    return "unknown" if value is None else decimal(value, digits)


def bare(value: float, unit: str, digits: int | None = None) -> str:
    """The number of a figure in its unit, without the unit's name; a fraction carries its percent sign."""
    if unit == "count" or (unit == "tokens" and float(value).is_integer() and abs(value) >= 100):
        return count(value)
    if digits is None:
        digits = DIGITS.get(unit, 2)
    if unit in PERCENT:
        return percent(value, digits, signed=unit in SIGNED)
    return decimal(value, digits, signed=unit in SIGNED)


def number(fact: Fact, digits: int | None = None) -> str:
    """A fact's value with its unit, or `unknown` with the reason."""
    if fact.value is None:
        return unknown(fact)
    text = bare(fact.value, fact.unit, digits)
    return text if fact.unit in SILENT else f"{text} {fact.unit}"


def short_number(fact: Fact, digits: int | None = None) -> str:
    """A fact's value with its unit, or the word `unknown` where the reason is given elsewhere."""
    return "unknown" if fact.value is None else number(fact, digits)


def value(fact: Fact, digits: int | None = None) -> str:
    """A fact's value for a sentence that names the unit itself, or `unknown` with the reason."""
    return unknown(fact) if fact.value is None else bare(fact.value, fact.unit, digits)


def cell(fact: Fact, digits: int | None = None) -> str:
    """A fact's value for a table whose head names the unit; the reason of an unknown stands below the table."""
    return "unknown" if fact.value is None else bare(fact.value, fact.unit, digits)


def interval(fact: Fact, digits: int | None = None) -> str:
    """A fact's confidence interval, `none` for counts and other exact figures, `unknown` when none could be formed."""
    if fact.low is None or fact.high is None:
        return "none" if fact.unknown is None else "unknown"
    return f"{bare(fact.low, fact.unit, digits)} to {bare(fact.high, fact.unit, digits)}"


def with_interval(fact: Fact, digits: int | None = None) -> str:
    """A fact's value with its interval in brackets; where it has none, the value and, if given, why."""
    if fact.value is None:
        return unknown(fact)
    if fact.low is None or fact.high is None:
        reason = "" if fact.unknown is None else f" (interval unknown: {fact.unknown.removeprefix('no interval: ')})"
        return number(fact, digits) + reason
    return f"{number(fact, digits)} ({interval(fact, digits)})"


def with_known_interval(fact: Fact, digits: int | None = None) -> str:
    """Like :func:`with_interval`, silent about an unknown interval: for a paragraph that gives the reason once."""
    return number(fact, digits) if fact.low is None or fact.high is None else with_interval(fact, digits)


def unknown(fact: Fact) -> str:
    """The words for a fact that is not known; a null without a reason is an error of the analysis."""
    if not fact.unknown:
        raise RenderError(f"facts.json: a fact is null without a reason; its definition is {fact.definition!r}")
    return f"unknown: {fact.unknown}"


def geometric_formula(k: int) -> str:
    """The formula that a constant chance a would give tokens per step: 1 + a + ... + a^K, in text."""
    return " + ".join(["1", "a", *(f"a{str(power).translate(SUPERSCRIPTS)}" for power in range(2, k + 1))][: k + 1])
