"""How facts are printed into a document: escaped, in HTML and PDF linked to their rows in the appendix, an unknown with why.

A reason is given once a section: where a sentence is about the unknown figure it stands there, and what tables and brackets
leave open is told by :meth:`Printer.why` at the end of the section.
"""

import re
from collections.abc import Callable, Mapping

from markupsafe import Markup

from draftmeter.facts import Fact
from draftmeter.render import numbers
from draftmeter.render.facts import NamedFact


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
        return self._unknown(fact) if fact.value is None else self._of(fact, numbers.with_unit(fact, digits))

    def value(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value for a sentence that names the unit itself, or `unknown` with the reason."""
        return self._unknown(fact) if fact.value is None else self._of(fact, numbers.value_of(fact, digits))

    def things(self, fact: Fact, plural: str) -> Markup:
        """A count with its noun, given in the plural: `1 draft`, `2 drafts`."""
        if fact.value is None:
            return self._of(fact, f"an unknown number of {plural}", left_open=True)
        return self._of(fact, numbers.counted(fact.value, plural))

    def cell(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value for a table whose head names the unit."""
        if fact.value is None:
            return self._of(fact, "unknown", left_open=True)
        return self._of(fact, numbers.value_of(fact, digits))

    def interval(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's confidence interval, `none` for counts and other exact figures, `unknown` when none could be formed."""
        text = numbers.ends(fact, digits)
        if text is not None:
            return self._of(fact, text)
        if fact.unknown is None:
            return Markup(self._escape("none"))
        return self._of(fact, "unknown", left_open=True)

    def with_interval(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value with its interval in brackets, for a sentence."""
        text = numbers.ends(fact, digits)
        if fact.value is None or (text is None and fact.unknown is None):
            return self.number(fact, digits)
        if text is None:
            return self._of(fact, f"{numbers.with_unit(fact, digits)} (interval unknown)", left_open=True)
        return self._of(fact, f"{numbers.with_unit(fact, digits)} ({text})")

    def cell_with_interval(self, fact: Fact, digits: int | None = None) -> Markup:
        """A fact's value with its unit and its interval in brackets, for a table."""
        text = numbers.ends(fact, digits)
        if fact.value is None:
            return self.cell(fact, digits)
        if text is None:
            return self._of(fact, numbers.with_unit(fact, digits), left_open=fact.unknown is not None)
        return self._of(fact, f"{numbers.with_unit(fact, digits)} ({text})")

    def row_value(self, fact: Fact) -> Markup:
        """A fact's value with its unit in its own row of the appendix, which gives the reason of an unknown."""
        return Markup(self._escape("unknown" if fact.value is None else numbers.with_unit(fact)))

    def row_interval(self, fact: Fact) -> Markup:
        """A fact's interval in its own row of the appendix."""
        return Markup(self._escape(numbers.ends(fact) or ("none" if fact.unknown is None else "unknown")))

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
        return self._link(text if isinstance(text, str) else numbers.plain(text), place)

    def anchor(self, text: str, place: str) -> Markup:
        """`text` as a place that links of this document point at."""
        inner = self._escape(text)
        return Markup(f"[{inner}]{{#{place}}}") if self._linked else Markup(inner)

    def _of(self, fact: Fact, text: str, *, left_open: bool = False) -> Markup:
        if left_open:
            why = numbers.reason(fact)
            self._open.setdefault(why, self._places.get(fact.unknown or "", ""))
        return self._link(text, f"fact-{fact.key}" if isinstance(fact, NamedFact) else "")

    def _link(self, text: str, place: str) -> Markup:
        inner = self._escape(text)
        return Markup(f"[{inner}](#{place})") if self._linked and place else Markup(inner)

    def _unknown(self, fact: Fact) -> Markup:
        text = numbers.reason(fact)
        if text in self._told:
            return self._of(fact, "unknown") + Markup(" for the same reason")
        self._told.add(text)
        return self._of(fact, "unknown") + Markup(": ") + self._link(text, self._places.get(fact.unknown or "", ""))
