"""Runs beside each other: other clients, gaps, streams."""

import numpy as np
import pytest

from chance import fits
from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.runs import other_clients, relative_gap, streams_slope


def test_other_clients_by_run_and_pooled() -> None:
    found = other_clients([1000, 2000, 0, 1000], [996, 1240, 0, 1002])
    assert found.by_run[:2] == pytest.approx((0.004, 0.38)) and found.by_run[2] is None
    assert found.by_run[3] == pytest.approx(-0.002)
    assert found.all_runs == pytest.approx(762 / 4000)
    assert found.kept == (True, False, False, True)
    assert other_clients([0], [0]).all_runs is None
    with pytest.raises(CountsError, match="one count of both"):
        other_clients([1, 2], [1])


def test_relative_gap() -> None:
    assert relative_gap(99, 100) == pytest.approx(-0.01)
    assert relative_gap(1, 0) is None


def test_slope_over_streams_by_hand() -> None:
    # Published synthetic rungs; runs of equal streams are pooled.
    streams = [1, 8, 8, 16, 32, 64]
    drafted = np.array([1000.0, 500, 500, 1000, 1000, 1000])
    rates = np.array([0.664, 0.75, 0.766, 0.711, 0.722, 0.708])
    found = streams_slope(streams, rates * drafted, drafted, ["a"] * 6, 0.95)
    x, y = np.log2([1, 8, 16, 32, 64]), np.array([0.664, 0.758, 0.711, 0.722, 0.708])
    slope, _ = np.polyfit(x, y, 1)
    assert found.estimate.value == pytest.approx(slope) and found.rungs == 5 and found.same_prompts
    assert found.estimate.low < 0 < found.estimate.high
    growing = streams_slope(streams, rates * drafted, drafted, ["a", "b", "b", "b", "b", "b"], 0.95)
    assert not growing.same_prompts


def test_the_slope_covers_the_truth_when_rungs_differ_by_more_than_sampling() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        rates = 0.7 + 0.01 * np.log2([1, 4, 16, 64]) + rng.normal(0, 0.02, 4)
        found = streams_slope([1, 4, 16, 64], rates * 1e4, [1e4] * 4, ["a"] * 4, 0.95)
        hits += found.estimate.low <= 0.01 <= found.estimate.high
    assert fits(hits, 400, least=0.95, most=0.95)  # the differences are normal, and the interval is exact


def test_slopes_that_cannot_be_known() -> None:
    assert "needs two" in streams_slope([4, 4], [1, 2], [10, 10], ["a", "a"], 0.95).estimate.unknown
    two = streams_slope([1, 4], [5, 6], [10, 10], ["a", "a"], 0.95).estimate
    assert two.value == pytest.approx(0.05) and two.low is None and "3 are needed" in two.unknown
    assert "no draft" in streams_slope([1, 4, 8], [5, 6, 0], [10, 10, 0], ["a"] * 3, 0.95).estimate.unknown
    with pytest.raises(CountsError, match="at least one"):
        streams_slope([0, 1, 2], [1, 1, 1], [2, 2, 2], ["a"] * 3, 0.95)


def test_the_same_acceptance_on_every_rung_is_no_trend_for_certain() -> None:
    found = streams_slope([1, 8, 32, 64], [528.0] * 4, [693.0] * 4, ["shared"] * 4, 0.95)
    assert (found.estimate.value, found.estimate.low, found.estimate.high) == (0.0, 0.0, 0.0)
