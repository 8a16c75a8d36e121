"""The claims of the published study, judged on this one's figures: they hold, they fail, or that
cannot be told.

A claim holds with the interval of every figure inside its region, and fails with that of some
figure outside. An interval that reaches over an end of the region, or is not known, leaves it open.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from draftmeter.analyse.facts import PERCENT, AnalysisError
from draftmeter.analyse.regions import (
    FLAT_PP,
    FORMULA_LOW,
    FORMULA_MARGIN,
    MEMORY_MARGIN,
    TWO_GROUPS,
    WEAK_CORRELATION,
    Region,
    above,
    below,
    place,
    side,
    within,
)
from draftmeter.facts import Claim, Fact, Place

Outcome = Literal["holds", "fails", "cannot tell"]

FIFTHS = range(1, 6)
STEP_RATE_RUNNING = (1, 2, 3)
OUTCOMES: Mapping[Place, Outcome] = {
    "inside": "holds",
    "outside": "fails",
    "cannot tell": "cannot tell",
    "unknown": "cannot tell",
}
WORDS = {"holds": "lies inside", "fails": "lies outside", "cannot tell": "reaches over an end of"}


@dataclass(frozen=True)
class Condition:
    """The fact `key` in one of the `regions`. Outside is outside all of `beyond`, the regions
    themselves if that is None."""

    key: str
    regions: tuple[Region, ...]
    beyond: tuple[Region, ...] | None = None
    holds_a_value: float | None = None
    """Instead of a region: the interval has to hold this value."""


@dataclass(frozen=True)
class PublishedClaim:
    """A claim with what decides it; without conditions, `unknown` says why there are none."""

    name: str
    statement: str
    conditions: Sequence[Condition]
    unknown: str = "the study has no figure of this kind"
    note: str = ""
    """What has to be said of the region besides."""


@dataclass(frozen=True)
class _Judged:
    """One condition with its outcome; `room` is the distance from the interval to the end of its
    region, in its half-widths."""

    key: str
    outcome: Outcome
    reason: str
    room: float


def judge(claims: Sequence[PublishedClaim], facts: Mapping[str, Fact], regions: Mapping[str, str]) -> list[Claim]:
    """Each claim with its outcome, in order; `regions` are their regions in words, by name."""
    if [claim.name for claim in claims] != list(regions):
        raise AnalysisError(f"the published claims are {', '.join(regions)}; other ones are judged, or in another order")
    return [_claim(claim, facts, regions[claim.name]) for claim in claims]


def published_claims(
    facts: Mapping[str, Fact],
    production: str,
    controlled: Sequence[str],
    intervals: str,
    sensitivity: Sequence[int],
    synthetic: str | None,
    k: int,
) -> list[PublishedClaim]:
    """In the order of the published study; K = `k` positions of the production workload.

    `intervals` is the subject of those intervals that stand beside the published ones, `synthetic`
    the controlled workload that stands beside the published synthetic one.
    """
    groups = tuple(Region(*ends, closed=True) for ends in TWO_GROUPS)
    return [
        PublishedClaim(
            "production_between_groups",
            "Acceptance of the production traffic lies between the lowest and the highest of the controlled workloads.",
            list(_between(facts, production, controlled)),
            "it takes two controlled workloads whose acceptance has an interval",
        ),
        PublishedClaim(
            "two_groups",
            "Each controlled workload belongs to one of the two groups that the published ones fall in.",
            [Condition(_acceptance(facts, workload), groups) for workload in controlled],
            "there is no controlled workload",
        ),
        PublishedClaim(
            "overdispersed",
            "Acceptance varies more from interval to interval than the luck of drafts explains.",
            [Condition(f"{intervals}.variance_ratio", (above(1.0),))],
        ),
        PublishedClaim(
            "drift_gone",
            "Acceptance remembers itself for ten seconds, and hardly for ten minutes.",
            [
                Condition(f"{intervals}.autocorrelation_10s", (above(0.0),)),
                Condition(f"{intervals}.autocorrelation_600s", (below(MEMORY_MARGIN),)),
            ],
        ),
        PublishedClaim(
            "load_flat",
            "Acceptance is nearly the same however many requests run.",
            [Condition(f"{intervals}.load_range_pp", (below(FLAT_PP),))],
        ),
        PublishedClaim(
            "idle_end_higher",
            "Acceptance is higher in intervals at whose end no request runs.",
            [Condition(f"{intervals}.idle_minus_loaded_pp", (above(0.0),))],
        ),
        PublishedClaim(
            "chance_does_not_fall",
            "The chance of acceptance does not fall along the draft, overall and in each fifth of the intervals.",
            list(_rises(facts, production, intervals, k)),
            "positions are unknown, or a draft has one alone",
            "; where sorting by acceptance alone makes a fall, not below that",
        ),
        *_formula(production),
        PublishedClaim(
            "reasoning_lowers",
            "Reasoning lowers acceptance on the same prompts.",
            [Condition("pair.reasoning_difference_pp", (below(0.0),))] if "pair.reasoning_difference_pp" in facts else [],
            "the study has no pair of workloads with reasoning and without on the same prompts",
        ),
        PublishedClaim(
            "synthetic_no_stream_trend",
            "Acceptance of the synthetic workload has no trend over streams.",
            [] if synthetic is None else [Condition(f"{synthetic}.streams_slope", (), holds_a_value=0.0)],
            "no controlled workload stands beside the published synthetic one",
        ),
        PublishedClaim(
            "tokens_per_step_and_step_rate_weak",
            "Tokens per step and the rate of steps are hardly correlated.",
            list(_correlations(intervals, sensitivity)),
        ),
    ]


def _formula(production: str) -> list[PublishedClaim]:
    rates = {
        "formula_first_position": (
            within(FORMULA_MARGIN),
            "the share through the first position gives nearly the tokens per step.",
        ),
        "formula_checked": (within(FORMULA_MARGIN), "accepted over checked gives nearly the tokens per step."),
        "formula_accepted_over_drafted_low": (
            below(FORMULA_LOW),
            "accepted over drafted gives far too few tokens per step.",
        ),
    }
    return [
        PublishedClaim(
            name, f"The geometric formula of {what}", [Condition(f"{production}.{name.removesuffix('_low')}_error", (region,))]
        )
        for name, (region, what) in rates.items()
    ]


def _acceptance(facts: Mapping[str, Fact], workload: str) -> str:
    """The fact of all runs; where other clients leave it without an interval, that of the runs
    without them, if it has one."""
    whole, undisturbed = f"{workload}.accepted_over_drafted", f"{workload}.under_1_percent.accepted_over_drafted"
    if facts[whole].low is None and undisturbed in facts and facts[undisturbed].low is not None:
        return undisturbed
    return whole


def _between(facts: Mapping[str, Fact], production: str, controlled: Sequence[str]) -> Iterator[Condition]:
    """The region's own ends are estimates: inside is inside their intervals, outside is outside
    them."""
    found = [facts[_acceptance(facts, workload)] for workload in controlled]
    values = [one.value for one in found if one.value is not None]
    ends = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    if len(ends) > 1 and len(ends) == len(controlled):
        (lowest_low, lowest_high), (highest_low, highest_high) = (ends[values.index(pick(values))] for pick in (min, max))
        region, beyond = Region(lowest_high, highest_low), Region(lowest_low, highest_high)
        yield Condition(_acceptance(facts, production), (region,), beyond=(beyond,))


def _rises(facts: Mapping[str, Fact], production: str, intervals: str, k: int) -> Iterator[Condition]:
    for earlier, position in pairwise(range(1, k + 1)):
        yield Condition(f"{production}.rise_{position}", (Region(0.0, math.inf, closed=True),))
        for fifth in (f"{intervals}.fifth_{number}" for number in FIFTHS):
            # Sorting by acceptance alone makes the chance fall along the draft in the fifths at the top.
            there, before = (facts[f"{fifth}.equal_chance_{at}"].value for at in (position, earlier))
            lowest = 0.0 if there is None or before is None else min(0.0, PERCENT * (there - before))
            yield Condition(f"{fifth}.rise_{position}", (Region(lowest, math.inf, closed=True),))


def _correlations(intervals: str, sensitivity: Sequence[int]) -> Iterator[Condition]:
    for threshold in ("", *(f".t{min_drafts}" for min_drafts in sensitivity)):
        for running in STEP_RATE_RUNNING:
            yield Condition(f"{intervals}{threshold}.step_rate_correlation_{running}", (within(WEAK_CORRELATION),))


def _claim(claim: PublishedClaim, facts: Mapping[str, Fact], region: str) -> Claim:
    judged = [_judged(condition, facts) for condition in claim.conditions]
    worst = next((name for name in ("fails", "cannot tell", "holds") if any(one.outcome == name for one in judged)), None)
    first = min((one for one in judged if one.outcome == worst), key=lambda one: one.room, default=None)
    fact = None if first is None else facts.get(first.key)
    return Claim(
        name=claim.name,
        statement=claim.statement,
        outcome="cannot tell" if first is None else first.outcome,
        facts=[condition.key for condition in claim.conditions],
        decisive=None if first is None or fact is None or fact.value is None else first.key,
        value=None if fact is None else fact.value,
        low=None if fact is None else fact.low,
        high=None if fact is None else fact.high,
        unit="" if fact is None else fact.unit,
        region=region + claim.note,
        reason=claim.unknown if first is None else first.reason,
    )


def _judged(condition: Condition, facts: Mapping[str, Fact]) -> _Judged:
    fact = facts.get(condition.key)
    if fact is None:
        return _Judged(condition.key, "cannot tell", "the study has no such figure", -math.inf)
    if fact.low is None or fact.high is None:
        return _Judged(condition.key, "cannot tell", f"the figure has no interval: {fact.unknown}", -math.inf)
    if condition.holds_a_value is not None:
        inside = side(fact, condition.holds_a_value) == "cannot tell"
        reason = f"the interval {'holds' if inside else 'does not hold'} {condition.holds_a_value:g}"
        return _Judged(condition.key, "holds" if inside else "fails", reason, 0.0)
    outcome = OUTCOMES[place(fact, condition.regions, condition.beyond)]
    room = max(region.room(fact.low, fact.high) for region in condition.regions)
    half = (fact.high - fact.low) / 2
    return _Judged(condition.key, outcome, f"the interval {WORDS[outcome]} the region", room / half if half else room)
