"""What the statistics say of a workload's intervals, and how these estimates become facts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.facts import block_fact, fact
from draftmeter.analyse.interval_series import NO_POSITION, WorkloadIntervals
from draftmeter.facts import Fact
from draftmeter.stats.blocks import FEWEST_BLOCKS
from draftmeter.stats.interval_statistics import IntervalStatistics, Settings, interval_statistics
from draftmeter.stats.resample import lines_in_words
from draftmeter.study.schema import Analysis

# Intervals, of ten seconds each in the published study: the curve goes to 30 minutes there.
CURVE_INTERVALS = 180
# Of the interval that the planning number is for: one percentage point either way.
HALF_WIDTH = 0.01
UNKNOWN_INTERVAL = "the log interval is not known"
NO_RUNNING = "the lines do not say how many requests were running"


@dataclass(frozen=True)
class IntervalEstimates:
    """What the statistics say of the intervals, or why they say nothing; with what every fact of it needs to say."""

    log: WorkloadIntervals
    min_drafts: int
    confidence: float
    survey: IntervalStatistics | None

    @property
    def rule(self) -> str:
        """Which intervals count, in words."""
        return rule(self.min_drafts)

    @property
    def why_none(self) -> str | None:
        """Why no figure of the qualifying intervals can be made; None where some qualify."""
        if self.survey is None:
            return self.log.unknown
        return self.why_none_at(self.min_drafts)

    def why_none_at(self, min_drafts: int) -> str | None:
        """The same for another threshold of the survey."""
        if self.survey is None:
            return self.log.unknown
        threshold = next(one for one in self.survey.thresholds if one.min_drafts == min_drafts)
        if threshold.intervals:
            return None
        assert self.log.lines is not None
        hidden = int(np.isnan(self.log.lines.drafts).sum())
        more = f"; the drafts of {hidden} of {len(self.log)} intervals are not known" if hidden else ""
        return f"no {rule(min_drafts)}{more}"

    @property
    def too_short(self) -> str | None:
        """Why figures that say not themselves whether they are too short have no interval; None where they have one."""
        if self.survey is None or self.why_none:
            return self.why_none
        qualifying = self.survey.thresholds[0].intervals
        blocks = qualifying / self.survey.memory
        if blocks >= FEWEST_BLOCKS:
            return None
        return f"too short: {blocks:.1f} effective blocks ({lines_in_words(qualifying)}), at least {FEWEST_BLOCKS} are needed"

    def estimate(
        self, name: str, unit: str, definition: str, *, factor: float = 1.0, less: float = 0.0, unknown: str | None = None
    ) -> Fact:
        """The estimate `name` as a fact; one that is not there, or has an `unknown` reason, is unknown."""
        unknown = unknown or self.why_none
        found = None if self.survey is None or unknown else self.survey.estimates.get(name)
        if found is None:
            return self.plain(None, unit, definition, unknown or NO_POSITION)
        return block_fact(found, self.log.source, unit, definition, factor=factor, less=less)

    def plain(
        self,
        value: float | None,
        unit: str,
        definition: str,
        unknown: str | None = None,
        ends: tuple[float | None, float | None] = (None, None),
        method: str = "",
        n: int | None = None,
    ) -> Fact:
        """A figure that is no estimate from resampled blocks; `method` says how it or its interval was made."""
        low, high = ends
        if n is None:
            n = len(self.log) if self.survey is None else self.survey.thresholds[0].intervals
        return fact(
            value,
            low=low,
            high=high,
            unit=unit,
            definition=definition,
            method="; ".join(filter(None, (self.log.source, method))),
            n=n,
            n_unit="intervals",
            unknown=unknown,
        )

    def made(self, make: Callable[[IntervalStatistics], Fact], unit: str, definition: str, unknown: str | None = None) -> Fact:
        """What `make` makes of the survey, or an unknown fact where nothing can be made."""
        unknown = unknown or self.why_none
        if self.survey is None or unknown:
            return self.plain(None, unit, definition, unknown)
        return make(self.survey)


def rule(min_drafts: int) -> str:
    """Which intervals count at a threshold, in words."""
    return f"intervals with at least {min_drafts} drafts"


def interval_estimates(
    log: WorkloadIntervals,
    min_drafts: int,
    sensitivity: list[int],
    analysis: Analysis,
    seed: int,
    categories: NDArray[np.str_] | None = None,
) -> IntervalEstimates:
    """The survey of all intervals of `log` at these thresholds; `categories` labels each, shape (n,), where that is known."""
    found = None
    if log.lines is not None:
        settings = Settings(
            min_drafts=min_drafts,
            sensitivity=tuple(sensitivity),
            confidence=analysis.confidence,
            resamples=analysis.resamples,
            seed=seed,
            until_s=CURVE_INTERVALS * (log.window_s or 1.0),
            half_width=HALF_WIDTH,
        )
        found = interval_statistics(log.lines, settings, categories)
    return IntervalEstimates(log, min_drafts, analysis.confidence, found)
