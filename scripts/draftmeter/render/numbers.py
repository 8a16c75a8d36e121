"""How figures are printed: digits fixed by unit, thousands separated, the minus of print.

All functions return plain text; escaping and links come where it is inserted.
"""

import math
import re

from draftmeter.facts import Fact
from draftmeter.render.facts import NamedFact, RenderError
from draftmeter.units import AS_PERCENTAGE, DIGITS, SIGNED, is_signed

MINUS = "\N{MINUS SIGN}"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# So many tokens are a count or the mean of one; fewer are a rate.
MANY_TOKENS = 100
MOST_MORE_DIGITS = 2
# Times and rates span orders of magnitude: three significant digits, and never more than three after the point.
SIGNIFICANT = {"s", "min", "h", "drafts per second", "tokens per second"}
SILENT = {"count", "ratio", "correlation", "fraction", "relative", "p value", "AIC"}
SECONDS_PER_MINUTE = 60


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


def bare(value: float, unit: str, digits: int | None = None, *, signed: bool = False) -> str:
    """The number of a figure in its unit, without the unit's name; a fraction carries its percent sign."""
    signed = signed or unit in SIGNED
    if unit == "count":
        return count(value)
    if unit == "p value" and value < 10 ** -DIGITS[unit]:
        return f"below {decimal(10 ** -DIGITS[unit], DIGITS[unit])}"
    if digits is None and unit == "tokens" and abs(value) >= MANY_TOKENS:
        digits = 0
    if digits is None and unit in SIGNIFICANT:
        digits = min(max(2 - math.floor(math.log10(abs(value))), 0), 3) if value else 0
    if digits is None:
        digits = DIGITS.get(unit, 2)
    if unit in AS_PERCENTAGE:
        return percent(value, digits, signed=signed)
    return decimal(value, digits, signed=signed)


def value_of(fact: Fact, digits: int | None = None) -> str:
    """A known fact's value without the name of its unit."""
    return bare(known(fact), fact.unit, _digits(fact, digits), signed=is_difference(fact))


def _digits(fact: Fact, digits: int | None) -> int | None:
    """So many more digits than usual that the two ends of an interval are told apart; None for the usual ones."""
    if digits is not None or fact.low is None or fact.high is None or fact.unit not in DIGITS:
        return digits
    usual = 0 if fact.unit == "tokens" and abs(fact.high) >= MANY_TOKENS else DIGITS[fact.unit]
    for more in range(1, MOST_MORE_DIGITS + 1):
        if bare(fact.low, fact.unit, digits) != bare(fact.high, fact.unit, digits) or fact.low == fact.high:
            return digits
        digits = usual + more
    return digits


def as_printed(value: float, printed: str, unit: str) -> str:
    """A number that was printed elsewhere, as `printed`, in the form of this note's `unit`, with the digits it had there."""
    digits = len(printed.partition(".")[2])
    if "e" in printed:
        return count(value)
    if unit in AS_PERCENTAGE:
        return percent(value, max(digits - 2, 0), signed=unit in SIGNED)
    return decimal(value, digits, signed=unit in SIGNED)


def is_difference(fact: Fact) -> bool:
    """Whether the sign of a fact is half of what it says, by the name of its quantity."""
    return isinstance(fact, NamedFact) and is_signed(fact.key.rpartition(".")[2], fact.unit)


def with_unit(fact: Fact, digits: int | None = None) -> str:
    """A known fact's value with the name of its unit, where the number does not say it."""
    text = value_of(fact, digits)
    return text if fact.unit in SILENT else f"{text} {one_of(fact.unit) if text == '1' else fact.unit}"


def ends(fact: Fact, digits: int | None = None) -> str | None:
    """The two ends of a fact's interval, without the unit's name; None where it has none."""
    if fact.low is None or fact.high is None:
        return None
    digits = _digits(fact, digits)
    low, high = (bare(end, fact.unit, digits, signed=is_difference(fact)) for end in (fact.low, fact.high))
    return f"{low} to {high}"


def known(fact: Fact) -> float:
    """The value of a fact that has one."""
    if fact.value is None:
        raise RenderError(f"a figure is printed as if it were known; its definition is {fact.definition!r}")
    return fact.value


def reason(fact: Fact) -> str:
    """Why a value or an interval is unknown; a null without a reason is an error of the analysis."""
    if not fact.unknown:
        raise RenderError(f"facts.json: a fact is null without a reason; its definition is {fact.definition!r}")
    return fact.unknown.removeprefix("no interval: ")


def counted(number: float, plural: str) -> str:
    """A number of things with its noun, which is given in the plural: `1 pair of intervals`, `2 pairs of intervals`."""
    return f"{count(number)} {one_of(plural) if number == 1 else plural}"


def one_of(plural: str) -> str:
    """The singular of a plural that ends in s, or whose first such word does."""
    return re.sub(r"(\w)s\b", r"\1", plural, count=1)


def duration(seconds: float) -> str:
    """A time lag in the largest unit that leaves it whole: `10 s`, `5 min`."""
    if seconds >= SECONDS_PER_MINUTE and (seconds / SECONDS_PER_MINUTE).is_integer():
        return f"{plain(seconds / SECONDS_PER_MINUTE)} min"
    return f"{plain(seconds)} s"


def geometric_formula(k: int) -> str:
    """The formula that a constant chance a would give tokens per step: 1 + a + ... + a^K, in text; a `k` of 0 is unknown."""
    if k == 0:
        return "1 + a + ... + a^K"
    return " + ".join(["1", "a", *(f"a{str(power).translate(SUPERSCRIPTS)}" for power in range(2, k + 1))][: k + 1])
