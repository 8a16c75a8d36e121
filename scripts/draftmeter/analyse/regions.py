"""Where a figure lies: the one test of a confidence interval against a region, and all margins that
regions are made of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftmeter.facts import Fact, Place, Side

# Draftmeter's own margins. Relative error up to which the formula counts as close.
FORMULA_MARGIN = 0.02
# Relative error below which the formula gives far too few tokens.
FORMULA_LOW = -0.1
# A correlation of acceptance with itself below it counts as gone.
MEMORY_MARGIN = 0.1
# Size of a correlation up to which it counts as weak.
WEAK_CORRELATION = 0.2
# The published study's margins. Range of mean acceptance over load below which it counts as flat.
FLAT_PP = 1.5
# Acceptance of its two groups of controlled workloads.
TWO_GROUPS = ((0.530, 0.545), (0.704, 0.706))

SIDES: Mapping[Place, Side] = {
    "inside": "above",
    "outside": "below",
    "cannot tell": "cannot tell",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class Region:
    """What lies between two values; one of them may be infinite."""

    low: float
    high: float
    closed: bool = False
    """Whether the ends belong to it."""

    def room(self, low: float, high: float) -> float:
        """How far the interval from `low` to `high` lies inside; below 0 where it reaches over an
        end."""
        return min(low - self.low, self.high - high)

    def holds(self, low: float, high: float) -> bool:
        """Whether the whole interval lies inside."""
        room = self.room(low, high)
        return room > 0 or (self.closed and room == 0)


def above(limit: float) -> Region:
    """All above `limit`, and not the limit itself."""
    return Region(limit, math.inf)


def below(limit: float) -> Region:
    """All below `limit`, and not the limit itself."""
    return Region(-math.inf, limit)


def within(margin: float) -> Region:
    """From -margin to +margin, both included."""
    return Region(-margin, margin, closed=True)


def place(fact: Fact, regions: Sequence[Region], beyond: Sequence[Region] | None = None) -> Place:
    """Where the whole confidence interval of `fact` lies: inside one of `regions`, or outside all
    of them.

    With `beyond` outside is outside all of those. A fact without a value is unknown; one without an
    interval cannot tell.
    """
    if fact.value is None:
        return "unknown"
    if fact.low is None or fact.high is None:
        return "cannot tell"
    if any(region.holds(fact.low, fact.high) for region in regions):
        return "inside"
    others = regions if beyond is None else beyond
    outside = all(fact.high < region.low or fact.low > region.high for region in others)
    return "outside" if outside else "cannot tell"


def side(fact: Fact, limit: float) -> Side:
    """On which side of `limit` the whole confidence interval of `fact` lies."""
    return SIDES[place(fact, [above(limit)])]
