"""The claims of the published study, judged on this one's figures: they hold, they fail, or that cannot be told.

A claim holds with the interval of every figure inside its region, and fails with that of some figure outside. An interval
that reaches over an end of the region, or is not known, leaves it open.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from draftmeter.analyse.facts import AnalysisError
from draftmeter.facts import Claim, Fact

Region = tuple[float, float]
Outcome = Literal["holds", "fails", "cannot tell"]

WORDS = {"holds": "lies inside", "fails": "lies outside", "cannot tell": "reaches over an end of"}


@dataclass(frozen=True)
class Condition:
    """The fact `key` in one of the `regions`. Outside is outside all of `beyond`, the regions themselves if that is None."""

    key: str
    regions: tuple[Region, ...]
    beyond: tuple[Region, ...] | None = None
    may_touch: bool = False
    """Whether an end of the region belongs to it."""
    holds_a_value: float | None = None
    """Instead of a region: the interval has to hold this value."""


@dataclass(frozen=True)
class Question:
    """A claim with what decides it; without conditions, `unknown` says why there are none."""

    name: str
    statement: str
    conditions: Sequence[Condition]
    unknown: str = "the study has no figure of this kind"
    note: str = ""
    """What has to be said of the region besides."""


@dataclass(frozen=True)
class Judged:
    """One condition with its outcome; `room` is the distance from the interval to the end of its region, in its half-widths."""

    key: str
    outcome: Outcome
    reason: str
    room: float


def judge(questions: Sequence[Question], facts: Mapping[str, Fact], regions: Mapping[str, str]) -> list[Claim]:
    """A claim for each question, in order; `regions` are their regions in words, by name."""
    if [question.name for question in questions] != list(regions):
        raise AnalysisError(f"the published claims are {', '.join(regions)}; other ones are judged, or in another order")
    return [_claim(question, facts, regions[question.name]) for question in questions]


def _claim(question: Question, facts: Mapping[str, Fact], region: str) -> Claim:
    judged = [_judged(condition, facts) for condition in question.conditions]
    found = [one for name in ("fails", "cannot tell", "holds") for one in judged if one.outcome == name]
    first = min((one for one in found if one.outcome == found[0].outcome), key=lambda one: one.room, default=None)
    fact = None if first is None else facts.get(first.key)
    return Claim(
        name=question.name,
        statement=question.statement,
        outcome="cannot tell" if first is None else first.outcome,
        facts=[condition.key for condition in question.conditions],
        decisive=None if first is None or fact is None or fact.value is None else first.key,
        value=None if fact is None else fact.value,
        low=None if fact is None else fact.low,
        high=None if fact is None else fact.high,
        unit="" if fact is None else fact.unit,
        region=region + question.note,
        reason=question.unknown if first is None else first.reason,
    )


def _judged(condition: Condition, facts: Mapping[str, Fact]) -> Judged:
    fact = facts.get(condition.key)
    if fact is None:
        return Judged(condition.key, "cannot tell", "the study has no such figure", -math.inf)
    if fact.low is None or fact.high is None:
        return Judged(condition.key, "cannot tell", f"the figure has no interval: {fact.unknown}", -math.inf)
    if condition.holds_a_value is not None:
        inside = fact.low <= condition.holds_a_value <= fact.high
        reason = f"the interval {'holds' if inside else 'does not hold'} {condition.holds_a_value:g}"
        return Judged(condition.key, "holds" if inside else "fails", reason, 0.0)
    beyond = condition.regions if condition.beyond is None else condition.beyond
    room = max(_room(fact.low, fact.high, region) for region in condition.regions)
    outside = all(fact.high < low or fact.low > high for low, high in beyond)
    if room > 0 or (condition.may_touch and room == 0):
        outcome: Outcome = "holds"
    else:
        outcome = "fails" if outside else "cannot tell"
    half = (fact.high - fact.low) / 2
    return Judged(condition.key, outcome, f"the interval {WORDS[outcome]} the region", room / half if half else room)


def _room(low: float, high: float, region: Region) -> float:
    """How far the interval lies inside; below 0 where it reaches over an end."""
    return min(low - region[0], region[1] - high)
