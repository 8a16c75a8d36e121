"""What the published study claims, as conditions on the facts of this one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from draftmeter.analyse.claims import Condition, Question, Region
from draftmeter.analyse.facts import PERCENT
from draftmeter.facts import Fact

FLAT_PP = 1.5
FORMULA_ERROR = 0.02
LOW_ERROR = -0.1
REMEMBERED = 0.1
WEAK = 0.2
FIFTHS = range(1, 6)
STEP_RATE_RUNNING = (1, 2, 3)
GROUPS: tuple[Region, ...] = ((0.530, 0.545), (0.704, 0.706))
ABOVE_0: tuple[Region, ...] = ((0.0, math.inf),)
BELOW_0: tuple[Region, ...] = ((-math.inf, 0.0),)


def within(limit: float) -> tuple[Region, ...]:
    """From -limit to +limit."""
    return ((-limit, limit),)


def questions(
    facts: Mapping[str, Fact],
    production: str,
    controlled: Sequence[str],
    intervals: str,
    sensitivity: Sequence[int],
    synthetic: str | None,
) -> list[Question]:
    """In the order of the published claims.

    `intervals` is the subject of those intervals that stand beside the published ones, `synthetic` the controlled workload
    that stands beside the published synthetic one.
    """
    return [
        Question(
            "production_between_groups",
            "Acceptance of the production traffic lies between the lowest and the highest of the controlled workloads.",
            list(_between(facts, production, controlled)),
            "it takes two controlled workloads whose acceptance has an interval",
        ),
        Question(
            "two_groups",
            "Each controlled workload belongs to one of the two groups that the published ones fall in.",
            [Condition(_acceptance(facts, workload), GROUPS, may_touch=True) for workload in controlled],
            "there is no controlled workload",
        ),
        Question(
            "overdispersed",
            "Acceptance varies more from interval to interval than the luck of drafts explains.",
            [Condition(f"{intervals}.variance_ratio", ((1.0, math.inf),))],
        ),
        Question(
            "drift_gone",
            "Acceptance remembers itself for ten seconds, and hardly for ten minutes.",
            [
                Condition(f"{intervals}.autocorrelation_10s", ABOVE_0),
                Condition(f"{intervals}.autocorrelation_600s", ((-math.inf, REMEMBERED),)),
            ],
        ),
        Question(
            "load_flat",
            "Acceptance is nearly the same however many requests run.",
            [Condition(f"{intervals}.load_range_pp", ((-math.inf, FLAT_PP),))],
        ),
        Question(
            "idle_end_higher",
            "Acceptance is higher in intervals at whose end no request runs.",
            [Condition(f"{intervals}.idle_minus_loaded_pp", ABOVE_0)],
        ),
        Question(
            "chance_does_not_fall",
            "The chance of acceptance does not fall along the draft, overall and in each fifth of the intervals.",
            list(_rises(facts, production, intervals)),
            "positions are unknown, or a draft has one alone",
            "; where sorting by acceptance alone makes a fall, not below that",
        ),
        *_formula(production),
        Question(
            "reasoning_lowers",
            "Reasoning lowers acceptance on the same prompts.",
            [Condition("pair.reasoning_difference_pp", BELOW_0)] if "pair.reasoning_difference_pp" in facts else [],
            "the study has no pair of workloads with reasoning and without on the same prompts",
        ),
        Question(
            "synthetic_no_stream_trend",
            "Acceptance of the synthetic workload has no trend over streams.",
            [] if synthetic is None else [Condition(f"{synthetic}.streams_slope", (), holds_a_value=0.0)],
            "no controlled workload stands beside the published synthetic one",
        ),
        Question(
            "tokens_per_step_and_step_rate_weak",
            "Tokens per step and the rate of steps are hardly correlated.",
            list(_correlations(intervals, sensitivity)),
        ),
    ]


def _formula(production: str) -> list[Question]:
    below: tuple[Region, ...] = ((-math.inf, LOW_ERROR),)
    rates = {
        "formula_first_position": (
            within(FORMULA_ERROR),
            "the share through the first position gives nearly the tokens per step.",
        ),
        "formula_checked": (within(FORMULA_ERROR), "accepted over checked gives nearly the tokens per step."),
        "formula_accepted_over_drafted_low": (below, "accepted over drafted gives far too few tokens per step."),
    }
    return [
        Question(
            name, f"The geometric formula of {what}", [Condition(f"{production}.{name.removesuffix('_low')}_error", regions)]
        )
        for name, (regions, what) in rates.items()
    ]


def _acceptance(facts: Mapping[str, Fact], workload: str) -> str:
    """The fact of all runs; where other clients leave it without an interval, that of the runs without them, if it has one."""
    whole, undisturbed = f"{workload}.accepted_over_drafted", f"{workload}.under_1_percent.accepted_over_drafted"
    if facts[whole].low is None and undisturbed in facts and facts[undisturbed].low is not None:
        return undisturbed
    return whole


def _between(facts: Mapping[str, Fact], production: str, controlled: Sequence[str]) -> Iterator[Condition]:
    """The region's own ends are estimates: inside is inside their intervals, outside is outside them."""
    found = [facts[_acceptance(facts, workload)] for workload in controlled]
    values = [one.value for one in found if one.value is not None]
    ends = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    if len(ends) > 1 and len(ends) == len(controlled):
        (lowest_low, lowest_high), (highest_low, highest_high) = (ends[values.index(pick(values))] for pick in (min, max))
        yield Condition(_acceptance(facts, production), ((lowest_high, highest_low),), beyond=((lowest_low, highest_high),))


def _rises(facts: Mapping[str, Fact], production: str, intervals: str) -> Iterator[Condition]:
    k = sum(key.removeprefix(f"{production}.chance_").isdigit() for key in facts if key.startswith(f"{production}.chance_"))
    for earlier, position in pairwise(range(1, k + 1)):
        yield Condition(f"{production}.rise_{position}", ABOVE_0, may_touch=True)
        for fifth in (f"{intervals}.fifth_{number}" for number in FIFTHS):
            # Sorting by acceptance alone makes the chance fall along the draft in the fifths at the top.
            there, before = (facts[f"{fifth}.equal_chance_{at}"].value for at in (position, earlier))
            lowest = 0.0 if there is None or before is None else min(0.0, PERCENT * (there - before))
            yield Condition(f"{fifth}.rise_{position}", ((lowest, math.inf),), may_touch=True)


def _correlations(intervals: str, sensitivity: Sequence[int]) -> Iterator[Condition]:
    for threshold in ("", *(f".t{min_drafts}" for min_drafts in sensitivity)):
        for running in STEP_RATE_RUNNING:
            yield Condition(f"{intervals}{threshold}.step_rate_correlation_{running}", within(WEAK))
