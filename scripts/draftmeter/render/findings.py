"""What the facts allow to be said: each finding is decided by where an interval lies, and by nothing else."""

from dataclasses import dataclass
from typing import Literal

from draftmeter.facts import Fact
from draftmeter.render.facts import PRODUCTION_INTERVALS, Facts, NamedFact
from draftmeter.render.numbers import duration

# Draftmeter's own margins; the note lists them. Size of an error below which the formula counts as close.
FORMULA_MARGIN = 0.02
# A correlation below it counts as gone.
MEMORY_MARGIN = 0.1

Side = Literal["above", "below", "cannot tell", "unknown"]
Closeness = Literal["close", "off", "cannot tell", "unknown"]
Memory = Literal["forgets", "stays", "fades", "none seen", "cannot tell", "unknown"]


@dataclass(frozen=True)
class Findings:
    """Answers to the questions of the note, each from the interval of one fact; `unknown` where there is no figure."""

    variation: Side
    """The variance ratio against 1: more than, less than the luck of drafts."""
    memory: Memory
    """Correlation at the shortest and the longest lag; `fades` where the longest may be gone or not."""
    load: Side
    """The slope of acceptance over running requests against 0."""
    positions: Side
    """The slope of the chance along the draft against 0; `unknown` also for drafts of one token."""
    formula: Closeness
    """The formula fed with the first-position rate."""
    formula_checked: Closeness
    formula_accepted_over_drafted: Closeness


@dataclass(frozen=True)
class Lag:
    """One lag of the autocorrelation in words, with its fact."""

    words: str
    fact: NamedFact


def find(facts: Facts) -> Findings:
    """All findings; a fact that is missing where it applies is a :class:`RenderError`."""
    workload, k = facts.production.workload, facts.k

    def of_formula(rate: str) -> Closeness:
        return close_to_zero(facts.fact(workload, f"formula_{rate}_error"), FORMULA_MARGIN)

    return Findings(
        variation=side(facts.fact(PRODUCTION_INTERVALS, "variance_ratio"), 1.0),
        memory=_memory(lags(facts)),
        load=side(facts.fact(PRODUCTION_INTERVALS, "load_slope_pp"), 0.0),
        positions=side(facts.fact(workload, "chance_slope"), 0.0) if k > 1 else "unknown",
        formula=of_formula("first_position"),
        formula_checked=of_formula("checked"),
        formula_accepted_over_drafted=of_formula("accepted_over_drafted"),
    )


def p_limit(facts: Facts) -> float:
    """A p value below it speaks against equal chances: what the level of the study's intervals leaves to chance."""
    return round(1 - facts.study.confidence, 12)


def side(fact: Fact, limit: float) -> Side:
    """On which side of `limit` the whole interval of `fact` lies."""
    if fact.value is None:
        return "unknown"
    if fact.low is None or fact.high is None:
        return "cannot tell"
    if fact.low > limit:
        return "above"
    return "below" if fact.high < limit else "cannot tell"


def close_to_zero(fact: Fact, margin: float) -> Closeness:
    """Whether the whole interval of `fact` lies within `margin` of 0, or outside."""
    if fact.value is None:
        return "unknown"
    if fact.low is None or fact.high is None:
        return "cannot tell"
    if -margin <= fact.low and fact.high <= margin:
        return "close"
    return "off" if fact.low > margin or fact.high < -margin else "cannot tell"


def lags(facts: Facts) -> list[Lag]:
    """The autocorrelations, in the order of facts.json: from the shortest lag to the longest."""
    prefix = "autocorrelation_"
    names = [name for name in facts.quantities(PRODUCTION_INTERVALS) if name.startswith(prefix)]
    found = []
    for name in names:
        seconds = name.removeprefix(prefix).removesuffix("s")
        words = duration(float(seconds)) if name.endswith("s") and seconds.isdigit() else seconds.replace("_", " ")
        found.append(Lag(words, facts.fact(PRODUCTION_INTERVALS, name)))
    return found


def _memory(found: list[Lag]) -> Memory:
    if not found or found[0].fact.value is None or found[-1].fact.value is None:
        return "unknown"
    first, last = found[0].fact, found[-1].fact
    if side(first, 0.0) != "above":
        return "cannot tell" if first.low is None else "none seen"
    if last.high is not None and last.high < MEMORY_MARGIN:
        return "forgets"
    return "stays" if side(last, 0.0) == "above" else "fades"
