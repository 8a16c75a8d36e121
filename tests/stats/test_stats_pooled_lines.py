"""Pooled figures with intervals from blocks of lines: those of the interval statistics, and what shorter drafts would give."""

from dataclasses import replace

import numpy as np
import pytest

from draftmeter.stats.interval_statistics import Settings, interval_statistics
from draftmeter.stats.intervals import IntervalSeries, IntervalsError, interval_series
from draftmeter.stats.pooled import pooled_by_blocks, pooled_names
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay
from simulated_study import as_lines, long_traffic


def simulated(slots: int, **changes: object) -> IntervalSeries:
    server = replace(PUBLISHED_LIKE, decays=(Decay(0.6, 15.0),), **changes)
    return as_lines(long_traffic(server, slots, np.random.default_rng(5)))


def test_pooled_figures_by_blocks_are_those_of_the_interval_statistics() -> None:
    log = simulated(6000)
    found = pooled_by_blocks(log, 500, 0.95, 300, 7)
    assert list(found.estimates) == [*pooled_names(3), "tokens_per_step_at_1", "tokens_per_step_at_2"]
    everything = interval_statistics(log, Settings(resamples=300, seed=7))
    for name in pooled_names(3):
        mine, theirs = found.estimates[name], everything.estimates[f"pooled.{name}"]
        assert mine.value == theirs.value
        assert mine.standard_error == pytest.approx(theirs.standard_error)  # the same resamples
    share = found.estimates["share_through_1"]
    shorter = found.estimates["tokens_per_step_at_1"]
    assert (shorter.value, shorter.low, shorter.high) == pytest.approx((1 + share.value, 1 + share.low, 1 + share.high))
    second = found.estimates["share_through_2"]
    assert found.estimates["tokens_per_step_at_2"].value == pytest.approx(1 + share.value + second.value)
    assert found.equality.p_value < 0.01


def test_a_chance_that_falls_along_the_draft_has_a_slope_below_zero() -> None:
    estimates = pooled_by_blocks(simulated(3000, chances=(0.8, 0.7, 0.6)), 500, 0.95, 300, 7).estimates
    slope = estimates["chance_slope"]
    assert slope.low < slope.value < slope.high < 0
    assert slope.value - slope.low == pytest.approx(slope.high - slope.value)


def test_pooled_figures_without_positions_or_lines() -> None:
    log = simulated(500)
    plain = interval_series(log.end, log.drafts, log.accepted, log.drafted, window_s=10.0)
    found = pooled_by_blocks(plain, 500, 0.95, 200, 7)
    assert list(found.estimates) == ["accepted_over_drafted", "tokens_per_step"]
    assert found.equality.unknown is not None
    with pytest.raises(IntervalsError, match="no line with a draft token"):
        pooled_by_blocks(interval_series([], [], [], [], window_s=10.0), 500, 0.95, 200, 7)
