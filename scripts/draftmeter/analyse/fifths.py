"""Five equal groups of intervals by acceptance: the chance at each position, and what equal chances would give."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.facts import rounded, within_unit
from draftmeter.analyse.lines import Intervals, block_method, described, memory
from draftmeter.facts import Fact
from draftmeter.plan import derive_seed
from draftmeter.stats.intervals import equal_chances, groups_by_acceptance
from draftmeter.stats.uncertainty import block_intervals
from draftmeter.study import Analysis

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FIFTHS = 5
FIFTH_COLUMNS = ["fifth", "position", "chance", "low", "high", "equal_chances"]


@dataclass(frozen=True)
class Fifth:
    """One position of one fifth: the measured chance, and the one that equal chances give after the same selection."""

    fifth: int
    position: int
    chance: Fact
    equal: Fact


def fifth_facts(chosen: Intervals, rule: str, analysis: Analysis, seed: int) -> list[Fifth]:
    """Both facts for every fifth and position, over the qualifying intervals `chosen`."""
    cells = [(fifth, position) for fifth in range(FIFTHS) for position in range(chosen.k)]
    reason = None
    if chosen.accepted_at is None:
        reason = "a line gives no acceptance by position"
    elif len(chosen.drafts) < FIFTHS:
        reason = f"{len(chosen.drafts)} {rule}; five groups need at least five"
    if chosen.accepted_at is None or reason is not None:
        unknown = [described(None, chosen, "fraction", text, reason) for text in _definitions(cells, rule)]
        equal = [described(None, chosen, "fraction", text, reason) for text in _equal_definitions(cells, rule)]
    else:
        unknown = _measured(chosen, chosen.accepted_at, cells, rule, analysis, seed)
        equal = _equal(chosen, chosen.accepted_at, cells, rule, analysis, seed)
    return [
        Fifth(fifth + 1, position + 1, chance, other)
        for (fifth, position), chance, other in zip(cells, unknown, equal, strict=True)
    ]


def fifth_rows(fifths: list[Fifth]) -> list[dict[str, Any]]:
    """Rows for Figure 1b, with the columns of FIFTH_COLUMNS."""
    return [
        {
            "fifth": one.fifth,
            "position": one.position,
            "chance": one.chance.value,
            "low": one.chance.low,
            "high": one.chance.high,
            "equal_chances": one.equal.value,
        }
        for one in fifths
    ]


def _measured(
    chosen: Intervals, accepted_at: FloatArray, cells: list[tuple[int, int]], rule: str, analysis: Analysis, seed: int
) -> list[Fact]:
    acceptance = chosen.acceptance

    def chances(members: IntArray) -> FloatArray:
        groups = groups_by_acceptance(acceptance[members], chosen.drafts[members], accepted_at[members], FIFTHS)
        return np.array([np.nan if chance is None else chance for group in groups for chance in group.chances])

    values = chances(np.arange(len(acceptance)))
    blocks = block_intervals(
        memory(chosen), chances, analysis.confidence, analysis.resamples, derive_seed(seed, "analyse", "fifths")
    )
    facts = []
    for index, definition in enumerate(_definitions(cells, rule)):
        if not np.isfinite(values[index]):
            reason = "no draft of the group was accepted before this position"
            facts.append(described(None, chosen, "fraction", definition, reason))
            continue
        low, high = within_unit(blocks.low[index], blocks.high[index])
        facts.append(
            Fact(
                value=rounded(float(values[index])),
                low=rounded(low),
                high=rounded(high),
                method=chosen.source + block_method(blocks, analysis.confidence),
                n=len(acceptance),
                n_unit="intervals",
                unit="fraction",
                definition=definition,
                unknown=blocks.unknown[index],
            )
        )
    return facts


def _equal(
    chosen: Intervals, accepted_at: FloatArray, cells: list[tuple[int, int]], rule: str, analysis: Analysis, seed: int
) -> list[Fact]:
    shares = accepted_at.sum(axis=0) / chosen.drafts.sum()
    definitions = _equal_definitions(cells, rule)
    if np.any(shares <= 0):
        reason = "no draft was accepted through the last position"
        return [described(None, chosen, "fraction", definition, reason) for definition in definitions]
    drafts = np.rint(chosen.drafts)
    result = equal_chances(shares, drafts, derive_seed(seed, "analyse", "equal chances"), analysis.resamples, FIFTHS)
    width = NormalDist().inv_cdf((1 + analysis.confidence) / 2)
    facts = []
    for (fifth, position), definition in zip(cells, definitions, strict=True):
        value, error = result.chances[fifth][position], result.monte_carlo_error[fifth][position]
        if value is None or error is None:
            reason = "a simulated group has no draft accepted before this position"
            facts.append(described(None, chosen, "fraction", definition, reason))
            continue
        low, high = within_unit(value - width * error, value + width * error)
        facts.append(
            Fact(
                value=rounded(value),
                low=rounded(low),
                high=rounded(high),
                method="mean over simulations of the same intervals; the interval is of the Monte Carlo error alone",
                n=result.replications,
                n_unit="simulations",
                unit="fraction",
                definition=definition,
                unknown=None,
            )
        )
    return facts


def _definitions(cells: list[tuple[int, int]], rule: str) -> list[str]:
    return [
        f"chance at position {position + 1}, pooled over fifth {fifth + 1} of 5 (1 lowest) of the {rule}, by acceptance"
        for fifth, position in cells
    ]


def _equal_definitions(cells: list[tuple[int, int]], rule: str) -> list[str]:
    return [f"{text}, if every draft had the pooled chances" for text in _definitions(cells, rule)]
