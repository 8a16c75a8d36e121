"""How facts and texts are printed into a document.

Numbers: digits fixed by unit, thousands separated, the minus of print; these functions return plain
text. Untrusted text (labels, model names and reasons come from configs, servers and file names) is
made literal by the escaping of the document. A :class:`Printer` joins both: escaped, in HTML and
PDF linked to the facts' rows in the appendix, an unknown with why. A reason is given once a
section: where a sentence is about the unknown figure it stands there, and what tables and brackets
leave open is told by :meth:`Printer.why` at the end of the section.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping

from markupsafe import Markup

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
# Characters with a meaning anywhere in a line of pandoc's or GitHub's Markdown.
_MARKDOWN_ANYWHERE = re.compile(r"([\\`*_{}\[\]<>|~^@$&#])")
# What only matters where a line begins: bullets, definitions, fenced divs, rules and setext underlines, numbered lists.
_MARKDOWN_AT_START = re.compile(r"^([-+:=%])(?=[-+:=%\s]|$)")
_MARKDOWN_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # an opening bracket or a star right after \\ would be read as its argument
    "*": "{*}",
    MINUS: "$-$",
}
# BibTeX counts every brace, escaped or not.
_BIBTEX = _LATEX | {"{": r"\textbraceleft{}", "}": r"\textbraceright{}"}


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


def plain_line(text: str) -> str:
    """One line of printable text: line breaks, control and direction-changing characters become single spaces."""
    kept = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(kept).split())


def escape_markdown(text: str) -> str:
    """`text` so that Markdown shows it literally: no markup, HTML, table cell, citation or list can come of it."""
    text = _MARKDOWN_ANYWHERE.sub(r"\\\1", plain_line(text))
    return _MARKDOWN_NUMBERED.sub(r"\1\\\2", _MARKDOWN_AT_START.sub(r"\\\1", text))


def escape_latex(text: str) -> str:
    """`text` so that LaTeX typesets it literally."""
    return "".join(_LATEX.get(char, char) for char in plain_line(text))


def escape_bibtex(text: str) -> str:
    """`text` for a field of a BibTeX entry between braces."""
    return "".join(_BIBTEX.get(char, char) for char in plain_line(text))


class Printer:
    """Prints for one document; `places` are the ids of the reasons in its appendix, by their text."""

    def __init__(self, escape: Callable[[str], str], *, linked: bool = False, places: Mapping[str, str] | None = None) -> None:
        self._escape = escape
        self._linked = linked
        self._places = places or {}
        self._open: dict[str, str] = {}
        self._told: set[str] = set()

    def number(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value with its unit, or `unknown` with the reason."""
        return self._unknown(fact) if fact.value is None else self._of(fact, with_unit(fact, digits))

    def value(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value for a sentence that names the unit itself, or `unknown` with the reason."""
        return self._unknown(fact) if fact.value is None else self._of(fact, value_of(fact, digits))

    def things(self, fact: Fact, plural: str) -> Markup:
        """A count with its noun, given in the plural: `1 draft`, `2 drafts`."""
        if fact.value is None:
            return self._of(fact, f"an unknown number of {plural}", left_open=True)
        return self._of(fact, counted(fact.value, plural))

    def cell(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value for a table whose head names the unit."""
        if fact.value is None:
            return self._of(fact, "unknown", left_open=True)
        return self._of(fact, value_of(fact, digits))

    def interval(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's confidence interval, `none` for counts and other exact figures, `unknown` when none could be formed."""
        text = ends(fact, digits)
        if text is not None:
            return self._of(fact, text)
        if fact.unknown is None:
            return Markup(self._escape("none"))
        return self._of(fact, "unknown", left_open=True)

    def with_interval(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value with its interval in brackets, for a sentence."""
        text = ends(fact, digits)
        if fact.value is None or (text is None and fact.unknown is None):
            return self.number(fact, digits)
        if text is None:
            return self._of(fact, f"{with_unit(fact, digits)} (interval unknown)", left_open=True)
        return self._of(fact, f"{with_unit(fact, digits)} ({text})")

    def cell_with_interval(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value with its unit and its interval in brackets, for a table."""
        text = ends(fact, digits)
        if fact.value is None:
            return self.cell(fact, digits)
        if text is None:
            return self._of(fact, with_unit(fact, digits), left_open=fact.unknown is not None)
        return self._of(fact, f"{with_unit(fact, digits)} ({text})")

    def row_value(self, fact: Fact) -> Markup:
        """A fact's value with its unit in its own row of the appendix, which gives the reason of an unknown."""
        return Markup(self._escape("unknown" if fact.value is None else with_unit(fact)))

    def row_interval(self, fact: Fact) -> Markup:
        """A fact's interval in its own row of the appendix."""
        return Markup(self._escape(ends(fact) or ("none" if fact.unknown is None else "unknown")))

    def why(self) -> Markup:
        """Why figures printed since the last call are unknown; nothing where none is. Reasons that differ in numbers are one."""
        alike: dict[str, list[str]] = {}
        for text in self._open:
            if text not in self._told:
                alike.setdefault(re.sub(r"\d[\d.,]*", "0", text), []).append(text)
        parts = []
        for texts in alike.values():
            more = f" (and {len(texts) - 1} alike)" if len(texts) > 1 else ""
            parts.append(self._link(texts[0] + more, self._open[texts[0]]))
        self._open.clear()
        self._told.clear()
        return Markup("Unknown here: ") + Markup("; ").join(parts) + Markup(".") if parts else Markup("")

    def because(self, reason: str) -> Markup:
        """A reason that stands in a sentence of its own, linked to where it is listed."""
        return self._link(reason.removeprefix("no interval: "), self._places.get(reason, ""))

    def see(self, text: str | float, place: str) -> Markup:
        """A number or words that point at the id `place` of this document."""
        return self._link(text if isinstance(text, str) else plain(text), place)

    def anchor(self, text: str, place: str) -> Markup:
        """`text` as a place that links of this document point at."""
        inner = self._escape(text)
        return Markup(f"[{inner}]{{#{place}}}") if self._linked else Markup(inner)

    def _of(self, fact: Fact, text: str, *, left_open: bool = False) -> Markup:
        if left_open:
            why = reason(fact)
            self._open.setdefault(why, self._places.get(fact.unknown or "", ""))
        return self._link(text, f"fact-{fact.key}" if isinstance(fact, NamedFact) else "")

    def _link(self, text: str, place: str) -> Markup:
        inner = self._escape(text)
        return Markup(f"[{inner}](#{place})") if self._linked and place else Markup(inner)

    def _unknown(self, fact: Fact) -> Markup:
        text = reason(fact)
        if text in self._told:
            return self._of(fact, "unknown") + Markup(" for the same reason")
        self._told.add(text)
        return self._of(fact, "unknown") + Markup(": ") + self._link(text, self._places.get(fact.unknown or "", ""))
