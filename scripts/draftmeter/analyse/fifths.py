"""Five equal groups of intervals by acceptance: the chance at each position, and what equal chances would give."""

from dataclasses import dataclass
from typing import Any

from draftmeter.analyse.facts import PERCENT, POINTS
from draftmeter.analyse.lines import NO_POSITION
from draftmeter.analyse.surveyed import Surveyed
from draftmeter.facts import Fact
from draftmeter.stats.interval_statistics import FIFTHS

FIFTH_COLUMNS = ["fifth", "position", "chance", "low", "high", "equal_chances"]
ORDER = f"of {FIFTHS} (1 lowest)"


@dataclass(frozen=True)
class Fifth:
    """One fifth: by position the chance and the one that equal chances give, and how the chance changes along the draft."""

    number: int
    chances: list[Fact]
    equal: list[Fact]
    change: dict[str, Fact]

    def facts(self) -> dict[str, Fact]:
        """All facts, by quantity."""
        name = f"fifth_{self.number}"
        facts = {f"{name}.chance_{position}": one for position, one in enumerate(self.chances, start=1)}
        facts |= {f"{name}.equal_chance_{position}": one for position, one in enumerate(self.equal, start=1)}
        return facts | {f"{name}.{quantity}": one for quantity, one in self.change.items()}


def fifth_facts(found: Surveyed, k: int) -> list[Fifth]:
    """The fifths of the qualifying intervals, K = `k` positions."""
    return [_fifth(found, number, k) for number in range(1, FIFTHS + 1)]


def fifth_rows(fifths: list[Fifth]) -> list[dict[str, Any]]:
    """Rows for Figure 1b, with the columns of FIFTH_COLUMNS."""
    return [
        {
            "fifth": fifth.number,
            "position": position,
            "chance": chance.value,
            "low": chance.low,
            "high": chance.high,
            "equal_chances": equal.value,
        }
        for fifth in fifths
        for position, (chance, equal) in enumerate(zip(fifth.chances, fifth.equal, strict=True), start=1)
    ]


def _fifth(found: Surveyed, number: int, k: int) -> Fifth:
    group = f"pooled over fifth {number} {ORDER} of the {found.rule}, by acceptance"
    positions = range(1, k + 1)
    definitions = [f"chance at position {position}, {group}" for position in positions]
    reason = _why_unknown(found)

    def estimate(name: str, unit: str, definition: str, factor: float = 1.0) -> Fact:
        return found.estimate(f"fifth_{number}.{name}", unit, definition, factor=factor, unknown=reason)

    chances = [estimate(f"chance_{position}", "fraction", text) for position, text in zip(positions, definitions, strict=True)]
    change = {
        f"rise_{position}": estimate(
            f"rise_{position}", POINTS, f"chance at position {position} less that at {position - 1}, {group}", PERCENT
        )
        for position in positions[1:]
    }
    if k > 1:
        text = f"slope of the chance along the draft, by least squares, for each further position, {group}"
        change["chance_slope"] = estimate("chance_slope", POINTS, text, PERCENT)
        change["equal_chances_p"] = _equality(found, number, group, reason)
    equal = [_equal(found, number, position, text, reason) for position, text in zip(positions, definitions, strict=True)]
    return Fifth(number, chances, equal, change)


def _why_unknown(found: Surveyed) -> str | None:
    if found.why_none:
        return found.why_none
    if found.log.lines is None or found.log.lines.accepted_at is None:
        return NO_POSITION
    lines = 0 if found.survey is None else found.survey.thresholds[0].intervals
    return f"{lines} {found.rule}; five groups need at least five" if lines < FIFTHS else None


def _equality(found: Surveyed, number: int, group: str, reason: str | None) -> Fact:
    definition = f"of the test that the chance of acceptance is the same at all positions, {group}"
    if found.survey is None or reason:
        return found.plain(None, "p value", definition, reason)
    test = found.survey.equality_in_fifths[number - 1]
    method = ""
    if test.freedom is not None:
        first, second = test.freedom
        method = f"Wald test, F with {first} and {second:.0f} degrees of freedom, covariance from resampled blocks"
    return found.plain(test.p_value, "p value", definition, test.unknown, method=method)


def _equal(found: Surveyed, number: int, position: int, definition: str, reason: str | None) -> Fact:
    definition += ", if every draft had the pooled chances"
    chances = None if found.survey is None else found.survey.equal_chances
    if reason or chances is None:
        return found.plain(None, "fraction", definition, reason or "no draft was accepted through the last position")
    method = "the same selection of the same intervals in closed form, acceptance of an interval taken as normal"
    return found.plain(chances[number - 1][position - 1], "fraction", definition, method=method)
