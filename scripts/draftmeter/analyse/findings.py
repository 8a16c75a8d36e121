"""What the facts allow to be said: each finding is decided by where a confidence interval lies, and
by nothing else."""

from collections.abc import Mapping
from typing import Literal

from draftmeter.analyse.regions import FORMULA_MARGIN, MEMORY_MARGIN, below, place, side, within
from draftmeter.facts import PRODUCTION_INTERVALS, REASONING, Fact, Findings, Margins, Place, Side, Structure

Memory = Literal["forgets", "stays", "fades", "none seen", "cannot tell", "unknown"]


def find(facts: Mapping[str, Fact], structure: Structure, production: str, confidence: float) -> Findings:
    """All findings on the workload `production`, its intervals, and what was run beside it.

    `confidence` is the level of the study's intervals, between 0 and 1: a p value is held against
    what it leaves to chance.
    """
    # Rounded, so that a level of 0.95 leaves 0.05 and not 0.050000000000000044.
    p_limit = round(1 - confidence, 12)
    has_slope = structure.subjects[production].k > 1
    fifths = structure.parts(PRODUCTION_INTERVALS, "fifth") if has_slope else []
    lags = [facts[f"{PRODUCTION_INTERVALS}.{lag.quantity}"] for lag in structure.lags]
    reasoning = facts.get(f"{REASONING}.reasoning_difference_pp")

    def of_intervals(quantity: str, limit: float) -> Side:
        return side(facts[f"{PRODUCTION_INTERVALS}.{quantity}"], limit)

    def of_formula(rate: str) -> Place:
        return place(facts[f"{production}.formula_{rate}_error"], [within(FORMULA_MARGIN)])

    def sides_of(quantity: str, limit: float) -> dict[str, Side]:
        fact_of = {subject: facts.get(f"{subject}.{quantity}") for subject in structure.subjects}
        return {subject: side(fact, limit) for subject, fact in fact_of.items() if fact is not None}

    return Findings(
        variation=of_intervals("variance_ratio", 1.0),
        memory=_memory(lags),
        load=of_intervals("load_slope_pp", 0.0),
        idle=of_intervals("idle_minus_loaded_pp", 0.0),
        positions=side(facts[f"{production}.chance_slope"], 0.0) if has_slope else "unknown",
        positions_in_fifths=[side(facts[f"{fifth}.chance_slope"], 0.0) for fifth in fifths],
        equal_chances=_equal_chances(facts.get(f"{production}.equal_chances_p"), p_limit),
        formula=of_formula("first_position"),
        formula_checked=of_formula("checked"),
        formula_accepted_over_drafted=of_formula("accepted_over_drafted"),
        reasoning=None if reasoning is None else side(reasoning, 0.0),
        streams=sides_of("streams_slope", 0.0),
        speedups=sides_of("speedup", 1.0),
        margins=Margins(p=p_limit, formula=FORMULA_MARGIN, memory=MEMORY_MARGIN),
    )


def _equal_chances(p_value: Fact | None, limit: float) -> Literal["rejected", "not rejected", "unknown"]:
    if p_value is None or p_value.value is None:
        return "unknown"
    return "rejected" if p_value.value < limit else "not rejected"


def _memory(lags: list[Fact]) -> Memory:
    """From the correlation at the shortest and at the longest of `lags`."""
    if not lags or lags[0].value is None or lags[-1].value is None:
        return "unknown"
    if side(lags[0], 0.0) != "above":
        return "cannot tell" if lags[0].low is None else "none seen"
    if place(lags[-1], [below(MEMORY_MARGIN)]) == "inside":
        return "forgets"
    return "stays" if side(lags[-1], 0.0) == "above" else "fades"
